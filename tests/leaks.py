"""Texts with secrets, as people post their failures and settings, and texts that hold none.

All are invented; each stands for a shape. Behind each is what is left of it.
"""

from __future__ import annotations

from typing import Final

#: In every one of the secrets below, and in nothing else.
SECRET: Final = "hunter2"
LEAKS: Final = (
    ('spark.conf["x.password"]="hunter2X"', 'spark.conf["x.password"]=***'),
    ("conf['db.password'] = 'hunter2X'", "conf['db.password'] = ***"),
    (
        'os.environ["AWS_SECRET_ACCESS_KEY"] = "hunter2X/x+y"',
        'os.environ["AWS_SECRET_ACCESS_KEY"] = ***',
    ),
    ("os.environ['DB_PASSWORD']='hunter2X'", "os.environ['DB_PASSWORD']=***"),
    ('props["sasl.password"]: "hunter2X"', 'props["sasl.password"]: ***'),
    ('props.password["x"] = "hunter2X"', 'props.password["x"] = ***'),
    ('password=f"hunter2X{x}"', "password=***"),
    ("password=r'hunter2X hunter2X'", "password=***"),
    ("password=b'hunter2X x'", "password=***"),
    ('.option("password", f"hunter2X {s}")', '.option("password", ***)'),
    (".option('password', b'hunter2X')", ".option('password', ***)"),
    ('password = """hunter2X hunter2X"""', "password = ***"),
    ("password='abc\\' hunter2X'", "password=***"),
    ("password='abc'' hunter2X' x", "password=*** x"),
    ('setPassword("hunter2X")', "setPassword(***)"),
    ('.password("hunter2X")', ".password(***)"),
    ('builder.withPassword("hunter2X")', "builder.withPassword(***)"),
    (
        (
            'spark.conf.set(f"fs.azure.account.oauth2.client.secret.{a}.dfs.core.wi'
            'ndows.net",\n    "hunter2X~x")'
        ),
        (
            'spark.conf.set(f"fs.azure.account.oauth2.client.secret.{a}.dfs.core.wi'
            'ndows.net",\n    ***)'
        ),
    ),
    ('"password": ["hunter2X"]', '"password": ***'),
    ('"apiKeys": ["hunter2X", "hunter2X"]', '"apiKeys": ***'),
    ('password=Some("hunter2X x")', "password=***"),
    ('password := "hunter2X"', "password := ***"),
    ("password: !!str 'hunter2X'", "password: ***"),
    ("password: |\n  hunter2X\nuser: x", "password: ***\nuser: x"),
    ("password: >-\n    hunter2X", "password: ***"),
    ("- name: DB_PASSWORD\n  value: hunter2X", "- name: DB_PASSWORD\n  value: ***"),
    ('- name: DB_PASSWORD\n  value: "hunter2X"', "- name: DB_PASSWORD\n  value: ***"),
    ('{"name":"DB_PASSWORD","value":"hunter2X"}', '{"name":"DB_PASSWORD","value":***}'),
    ('{"key":"spark.x.password","value":"hunter2X"}', '{"key":"spark.x.password","value":***}'),
    ('{"Name": "API_TOKEN", "Value": "hunter2X"}', '{"Name": "API_TOKEN", "Value": ***}'),
    (
        "<property><name>fs.s3a.secret.key</name><value>hunter2X</value></property>",
        "<property><name>fs.s3a.secret.key</name><value>***</value></property>",
    ),
    ("<password>hunter2X</password>", "<password>***</password>"),
    ('<entry key="password">hunter2X</entry>', '<entry key="password">***</entry>'),
    ("<SecretAccessKey>hunter2X</SecretAccessKey>", "<SecretAccessKey>***</SecretAccessKey>"),
    ("<SessionToken>hunter2X</SessionToken>", "<SessionToken>***</SessionToken>"),
    (
        "<SignatureProvided>hunter2X</SignatureProvided>",
        "<SignatureProvided>***</SignatureProvided>",
    ),
    ("db.password=${?X}hunter2X", "db.password=***"),
    ("postgresql://u:p/hunter2X@h:5432/db", "postgresql://h:5432/db"),
    ("redis://:p/hunter2X@h:6379/0", "redis://h:6379/0"),
    ("amqp://u:a/hunter2X@h/v", "amqp://h/v"),
    ('jdbc:oracle:thin:scott/"hunter2X y@hunter2X"@//h:1521/svc', "jdbc:oracle:thin://h:1521/svc"),
    ("jdbc:oracle:thin:scott/p@hunter2X@//h:1521/svc", "jdbc:oracle:thin://h:1521/svc"),
    (
        "jdbc:sqlserver://h:1433;user=u;password=a b hunter2X;encrypt=true",
        "jdbc:sqlserver://h:1433;user=u;password=***;encrypt=true",
    ),
    (
        "jdbc:sqlserver://h;user=u;password=a,hunter2X;x=1",
        "jdbc:sqlserver://h;user=u;password=***;x=1",
    ),
    (
        "jdbc:sqlserver://h;user=u;password=a)hunter2X;x=1",
        "jdbc:sqlserver://h;user=u;password=***;x=1",
    ),
    (
        "jdbc:sqlserver://h;user=u;password=a&hunter2X;x=1",
        "jdbc:sqlserver://h;user=u;password=***;x=1",
    ),
    (
        "jdbc:sqlserver://h;user=u;password=a]hunter2X;x=1",
        "jdbc:sqlserver://h;user=u;password=***;x=1",
    ),
    (
        "jdbc:sqlserver://h;user=u;password=a'hunter2X;x=1",
        "jdbc:sqlserver://h;user=u;password=***;x=1",
    ),
    (
        'jdbc:sqlserver://h;user=u;password=a"hunter2X;x=1',
        "jdbc:sqlserver://h;user=u;password=***;x=1",
    ),
    (
        "Server=h;User Id=u;Password=a hunter2X;Database=d",
        "Server=h;User Id=u;Password=***;Database=d",
    ),
    (
        "host=h port=5432 user=u password=a;hunter2X dbname=d",
        "host=h port=5432 user=u password=*** dbname=d",
    ),
    (
        "psql: dsn \"host=h password='a\\' hunter2X' dbname=d\"",
        'psql: dsn "host=h password=*** dbname=d"',
    ),
    ("cassandra.auth.password hunter2X", "cassandra.auth.password ***"),
    ("spark.cassandra.auth.password\thunter2X", "spark.cassandra.auth.password\t***"),
    ("spark.hadoop.fs.s3a.secret.key    hunter2X/x+y", "spark.hadoop.fs.s3a.secret.key    ***"),
    (
        "fs.azure.account.key.a.dfs.core.windows.net hunter2X==",
        "fs.azure.account.key.a.dfs.core.windows.net ***",
    ),
    ("--password hunter2X --user x", "--password *** --user x"),
    ("--token hunter2X", "--token ***"),
    ("curl -u user:hunter2X https://h/x", "curl -u user:*** https://h/x"),
    ("curl --user user:hunter2X https://h/x", "curl --user user:*** https://h/x"),
    (
        "Command '['curl', '-u', 'user:hunter2X', 'https://h']' returned non-zero exit status 22.",
        "Command '['curl', '-u', 'user:***', 'https://h']' returned non-zero exit status 22.",
    ),
    (
        (
            "subprocess.CalledProcessError: Command 'sqoop import --connect jdbc:x --username "
            "u --password hunter2X --table t' returned"
        ),
        (
            "subprocess.CalledProcessError: Command 'sqoop import --connect jdbc:x --username "
            "u --password *** --table t' returned"
        ),
    ),
    (
        "fs.azure.sas.c.a.blob.core.windows.net=hunter2X",
        "fs.azure.sas.c.a.blob.core.windows.net=***",
    ),
    ("spark.cosmos.accountKey hunter2X==", "spark.cosmos.accountKey ***"),
    ("client_assertion=hunter2X", "client_assertion=***"),
    ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nhunter2X\n-----END PGP PRIVATE KEY BLOCK-----", "***"),
    ("bearer hunter2Xabc.def", "bearer ***"),
    ("BEARER hunter2Xabcdef12", "BEARER ***"),
    ("authorization: hunter2Xabc", "authorization: ***"),
    ("Authorization: hunter2X", "Authorization: ***"),
    ("Authorization: Negotiate hunter2X==", "Authorization: Negotiate ***"),
    ("Authorization: OAuth hunter2X", "Authorization: OAuth ***"),
    ("Authorization: key=hunter2X", "Authorization: ***"),
    ("X-Auth-Key: hunter2X", "X-Auth-Key: ***"),
    ("Cookie: session=hunter2X; a=b", "Cookie: ***; a=b"),
    ("Set-Cookie: JSESSIONID=hunter2X; Path=/", "Set-Cookie: ***; Path=/"),
    ("api key: hunter2X", "api key: ***"),
    ("API Key = hunter2X", "API Key = ***"),
    ("secret key: hunter2X", "secret key: ***"),
    ("Account Key: hunter2X", "Account Key: ***"),
    ("private key: hunter2X", "private key: ***"),
    ("password was 'hunter2X'", "password was ***"),
    ("es.net.http.auth.pass hunter2X", "es.net.http.auth.pass ***"),
    ("SecretStr('hunter2X')", "SecretStr(***)"),
    ("keystorePass=hunter2X", "keystorePass=***"),
    ("-storepass hunter2X", "-storepass ***"),
    ("pw=hunter2X", "pw=***"),
    ("DB_PW=hunter2X", "DB_PW=***"),
    ("dbpw: hunter2X", "dbpw: ***"),
    ("DB_PASS=hunter2X", "DB_PASS=***"),
    ("dbpass=hunter2X", "dbpass=***"),
    ("spark.redis.auth=hunter2X", "spark.redis.auth=***"),
    ("spark.redis.auth -> hunter2X", "spark.redis.auth -> ***"),
    ("saskey=hunter2X", "saskey=***"),
    ("AZURE_STORAGE_KEY=hunter2X", "AZURE_STORAGE_KEY=***"),
    ("{password=hunter2X hunter2X, user=x}", "{password=***, user=x}"),
    ("Map(password -> a b hunter2X, user -> u)", "Map(password -> ***, user -> u)"),
    ("Map(user -> u, password -> a, hunter2Xb)", "Map(user -> u, password -> ***)"),
    ("{user=u, password=a,hunter2X, url=x}", "{user=u, password=***, url=x}"),
    ("{password=a b hunter2X}", "{password=***}"),
    ("SET PASSWORD FOR u = PASSWORD('hunter2X')", "SET PASSWORD FOR u = PASSWORD(***)"),
    ("IDENTIFIED BY VALUES 'hunter2X'", "IDENTIFIED BY VALUES ***"),
    ("url=https%3A%2F%2Fh%2Fx%3Fpassword%3Dhunter2X", "url=https%3A%2F%2Fh%2Fx%3Fpassword%3D***"),
    ("password%3Dhunter2X%26x", "password%3D***"),
    ("token%22%3A%22hunter2X", "token%22%3A***"),
    ("&#34;password&#34;:&#34;hunter2X&#34;", "&#34;password&#34;:***"),
    ("&quot;password&quot;: &quot;hunter2X&quot;", "&quot;password&quot;: ***"),
    ("password\\u003dhunter2X", "password\\u003d***"),
    ("password \\u003d hunter2X", "password \\u003d ***"),
    ("password&#61;hunter2X", "password&#61;***"),
    ("https://h/x;jsessionid=hunter2X", "https://h/x;jsessionid=***"),
    ("password=ab(c)hunter2X;x", "password=***"),
    ("(spark.x.password,a b hunter2X)", "(spark.x.password,***)"),
    ('password="hunter2X\\", token="hunter2X"', "password=***"),
    ('conf["x.password"]="hunter2X\\"', 'conf["x.password"]=***'),
    ('conf["x.password"]="a\\" + hunter2Xx', 'conf["x.password"]=***'),
    ('password=a\\"hunter2X', "password=***"),
    ("{password: correct hunter2X, x: y}", "{password: ***, x: y}"),
    ("x=[password=a b hunter2X]", "x=[password=***]"),
    ("Map(a -> b, password -> x y hunter2X)", "Map(a -> b, password -> ***)"),
    ("{a=b, password=x, y hunter2X, c=d}", "{a=b, password=***, c=d}"),
    ("{password=[hunter2X, hunter2X]}", "{password=***}"),
    ("passwords: [hunter2X, hunter2X]", "passwords: ***"),
    ("LoginInfo(user=u,pw=hunter2X)", "LoginInfo(user=u,pw=***)"),
    ("secrets:\n  - hunter2X\n  - hunter2Y\na: b", "secrets:\n  ***\na: b"),
    (
        '{"a":"\\\\u0022password\\\\u0022:\\\\u0022hunter2X\\\\u0022"}',
        '{"a":"\\\\u0022password\\\\u0022:***"}',
    ),
    ('{"password":"hunter2X\\","token":"hunter2Y"}', '{"password":***}'),
    ("{'password': 'hunter2X\\', 'token': 'hunter2Y'}", "{'password': ***}"),
    (
        'spark.conf.set("fs.azure.account.key." + name + ".dfs.core.windows.net", "hunter2X==")',
        'spark.conf.set("fs.azure.account.key." + name + ".dfs.core.windows.net", ***)',
    ),
    (
        'OAuthBearerLoginModule required clientId="c" clientSecret="hunter2X" scope="s";',
        'OAuthBearerLoginModule required clientId="c" clientSecret=*** scope="s";',
    ),
    (
        (
            '{\\"sasl.jaas.config\\":\\"x.ScramLoginModule required username=\\\\\\"u\\\\\\" '
            'password=\\\\\\"hunter2X z\\\\\\";\\"}'
        ),
        (
            '{\\"sasl.jaas.config\\":\\"x.ScramLoginModule required username=\\\\\\"u\\\\\\" '
            'password=***;\\"}'
        ),
    ),
    (
        'sasl.jaas.config=x.PlainLoginModule required username="u" password="hunter2X cu',
        'sasl.jaas.config=x.PlainLoginModule required username="u" password=***',
    ),
    (
        "jdbc:sqlserver://db:1433;user=app@srv;password=hunter2X;encrypt=true",
        "jdbc:sqlserver://db:1433;user=app@srv;password=***;encrypt=true",
    ),
    (
        "jdbc:sqlserver://db:1433;user=app@srv;password=hunter2X",
        "jdbc:sqlserver://db:1433;user=app@srv;password=***",
    ),
    ('    if password != "hunter2X":', "    if password != ***:"),
    ('    assert token == "hunter2X"', "    assert token == ***"),
    (
        'def connect(password: str = "hunter2X") -> None:',
        "def connect(password: str = ***) -> None:",
    ),
    ('password: Optional[str] = "hunter2X"', "password: Optional[str] = ***"),
    (
        'props.put(SslConfigs.SSL_KEY_PASSWORD_CONFIG, "hunter2X")',
        "props.put(SslConfigs.SSL_KEY_PASSWORD_CONFIG, ***)",
    ),
    ('conf.set(SECRET_KEY, "hunter2X")', "conf.set(SECRET_KEY, ***)"),
    ("define('PASSWORD' , 'hunter2X')", "define('PASSWORD' , ***)"),
    ("DB_PSWD=hunter2X", "DB_PSWD=***"),
    ("authentication key:hunter2X", "authentication key:***"),
    ("Authorization: NTLM hunter2X==", "Authorization: NTLM ***"),
    ("fs.azure.account.key.prodfile -> hunter2X==", "fs.azure.account.key.prodfile -> ***"),
    ("(spark.x.password,hunter2X", "(spark.x.password,***"),
    ("{user=u, password=hunter2X and more", "{user=u, password=*** and more"),
    (
        '{"private_key_id": "a", "private_key": "-----BEGIN PRIVATE KEY-----\\nhunter2X\\n',
        '{"private_key_id": ***, "private_key": ***',
    ),
    ("password=no-hunter2X", "password=***"),
    ('password="it is\nhunter2X" x', "password=*** x"),
    (
        "'DB_USER': 'u', 'DB_PASSWORD': 'hunter2X', 'HOME': '/r'",
        "'DB_USER': 'u', 'DB_PASSWORD': ***, 'HOME': '/r'",
    ),
    ("Map(x -> 1, password -> hunter2X,a -> b)", "Map(x -> 1, password -> ***,a -> b)"),
    (
        "password='hunter2X\n\tat a.b.C(C.java:5)\nCaused by: java.io.IOException: No space left",
        "password=***\n\tat a.b.C(C.java:5)\nCaused by: java.io.IOException: No space left",
    ),
    # One that begins as a token does, or as what was struck out before.
    ("password=my-Secr3t0123456789abcdefghijk!hunter2X", "password=***"),
    ("a password=my-Secr3t0123456789abcdefghijk?hunter2X, a", "a password=***, a"),
    ("token=sntrys_eyJpYXQiOjE2ODczMzY1NDMuNjk4NTk5H0=_hunter2X/abc", "token=***"),
    ("a: x.token: AKIAABCDEFGHIJKLMNOP/hunter2X refused", "a: x.token: *** refused"),
    ("(spark.x.token,dapi0123456789abcdef0123456789abcdef-hunter2X)", "(spark.x.token,***)"),
    ("password=***hunter2X", "password=***"),
    ("a password=ab-AAAAAAAAAAAAAAAAAAAA111a%2Fhunter2X, a", "a password=***, a"),
    ("password='a'/hunter2X, b", "password=***, b"),
    ("password=yes|hunter2X", "password=***"),
    *(
        (f"{told}eyJhbGciOiJkaXIi.{key}.48V1_ALb6US04U3b.{SECRET}c.XFBoMYUZ x", f"{told}*** x")
        for told in ("Authorization: Bearer ", "by ")
        for key in ("OKOawDo13gRp2ojaHV7", "")  # none where both sides have it
    ),
    (
        '{\\"authorization\\":\\"bearer hunter2X\\",\\"a\\":1}',
        '{\\"authorization\\":***,\\"a\\":1}',
    ),
    # Of HashiCorp's Vault and of Doppler: what stands before the dot is a plain word.
    ("Invalid token: s.hunter2XPcFrH9Bd0TQfBZ7", "Invalid token: ***"),
    ("error: vault_token: s.hunter2XPcFr denied", "error: vault_token: *** denied"),
    ("auth token: dp.st.prd.hunter2X", "auth token: ***"),
    # A query with a quote or a bracket.
    ('jdbc:postgresql://h/db?user=u&password=ab"chunter2X', "jdbc:postgresql://h/db"),
    (
        'url "jdbc:postgresql://h/db?password=ab"/hunter2X" refused',
        'url "jdbc:postgresql://h/db" refused',
    ),
    ('jdbc:mysql://h/db?password="hunter2X" refused', 'jdbc:mysql://h/db" refused'),
    ('GET http://h/p?a="x"&b=hunter2X now', "GET http://h/p now"),
    ("jdbc:mysql://h/db?password=ab)chunter2X refused", "jdbc:mysql://h/db refused"),
    ("jdbc:mysql://h/db?password=ab]?hunter2X refused", "jdbc:mysql://h/db refused"),
    ('with url: /p?a=b"chunter2X (Caused by', "with url: /p (Caused by"),
    ('"GET /p?a="hunter2X HTTP/1.1" 401', '"GET /p HTTP/1.1" 401'),
    (
        '{"a":"http://h/p?b=hunter2X","c":["http://h/p?b=hunter2X"],"d":1}',
        '{"a":"http://h/p","c":["http://h/p"],"d":1}',
    ),
    (
        '{"a":"https://h/c?sv=1&sig=hunter2X=","password":"hunter2X"}',
        '{"a":"https://h/c","password":***}',
    ),
    ('jdbc:mysql://h/db?password=a""hunter2X now', "jdbc:mysql://h/db now"),
    # With a brace, and as LDAP tells what follows.
    ("SharedAccessKey: {hunter2X", "SharedAccessKey: ***"),
    ("api_key->{hunter2X", "api_key->***"),
    ("a fs.s3a.secret.key:{hunter2X next", "a fs.s3a.secret.key:*** next"),
    ("fs.s3a.secret.key {hunter2X next", "fs.s3a.secret.key *** next"),
    ("spring.datasource.password: {cipher}hunter2X", "spring.datasource.password: ***"),
    ("{user: u, password: {noop}hunter2X, a: b}", "{user: u, password: ***, a: b}"),
    ("x: userPassword: {SSHA}abchunter2X== refused", "x: userPassword: *** refused"),
    ("password::hunter2X", "password::***"),
    ("userPassword:: hunter2XNTSEF9==", "userPassword:: ***"),
    # Of those who take metrics, logs and calls for help.
    ("Authorization: Api-Token hunter2X", "Authorization: ***"),
    ("Authorization: GenieKey hunter2X", "Authorization: ***"),
    ("Authorization: Key hunter2X, retrying", "Authorization: ***, retrying"),
    ("Proxy-Authorization: Custom hunter2X", "Proxy-Authorization: ***"),
    ('Authorization: Snowflake Token="hunter2X"', "Authorization: *** Token=***"),
    ("POST /v2/alerts GenieKey hunter2X-1234-1234 401", "POST /v2/alerts GenieKey *** 401"),
    ("DD-APPLICATION-KEY: hunter2X", "DD-APPLICATION-KEY: ***"),
    ("{'DD-APPLICATION-KEY': 'hunter2X'}", "{'DD-APPLICATION-KEY': ***}"),
    ("DD_APP_KEY=hunter2X", "DD_APP_KEY=***"),
    ("appKey=hunter2X", "appKey=***"),
    ("NEW_RELIC_LICENSE_KEY=hunter2X", "NEW_RELIC_LICENSE_KEY=***"),
    ("X-License-Key: hunter2X", "X-License-Key: ***"),
    ("X-Insert-Key: hunter2X", "X-Insert-Key: ***"),
    ("ingestionKey=hunter2X", "ingestionKey=***"),
    (
        "InstrumentationKey=hunter2X;IngestionEndpoint=x",
        "InstrumentationKey=***;IngestionEndpoint=x",
    ),
    ("LOG_ANALYTICS_WORKSPACE_KEY=hunter2X==", "LOG_ANALYTICS_WORKSPACE_KEY=***"),
    ("x-honeycomb-team: hunter2X", "x-honeycomb-team: ***"),
    ("headers={x-honeycomb-team=hunter2X}", "headers={x-honeycomb-team=***}"),
    ('{"routing_key": "hunter2X000000000000000000000000"}', '{"routing_key": "***"}'),
    ("integration_key=hunter2X000000000000000000000000", "integration_key=***"),
    ("https://h/v1/input/hunter2X000000000000000000000000", "https://h/v1/input/***"),
    ("https://h/receiver/v1/http/hunter2X==", "https://h/receiver/v1/http/***"),
    ("https://h/integration/hunter2X000000000000000000000000/enqueue", "https://h/integration/***"),
    # In a traceback's source line, in which a name or a call without a literal is shown.
    *(
        (
            f'x\n  File "/a.py", line 5, in f\n    {line}',
            f'x\n  File "/a.py", line 5, in f\n    {left}',
        )
        for line, left in (
            ('token = get("hunter2X")', "token = ***"),
            ("token = get(a, hunter2X)", "token = ***"),
            ("login(u, token=hunter2X)", "login(u, token=***)"),
            (
                'url = "jdbc:sqlserver://h:1;password=hunter2X',
                'url = "jdbc:sqlserver://h:1;password=***',
            ),
        )
    ),
    (
        'x\n  File "/a.ini", line 5\n    token = hunter2X',
        'x\n  File "/a.ini", line 5\n    token = ***',
    ),
    ("a\n  b\n    token = hunter2X", "a\n  b\n    token = ***"),
    *(
        (f"by {begin}{SECRET}XyZ0123456789abcdefghijklmno refused", "by *** refused")
        for begin in (
            "ghp_",
            "github_pat_",
            "glpat-",
            "gldt-",
            "some_new_",
            "vendor-v1-",
            "xoxb-12-",
            "sk_live_",
            "sk-proj-",
            "hf_",
            "npm_",
            "hvs.",
            "SG.",
            "ya29.",
            "AIza",
        )
    ),
)
#: Cut off at any place, as where a text is too long, with what would have closed the value.
CUT: Final = (
    "mongodb://user:hunter2X@host/db",
    "redis://:x/hunter2X@host",
    "s3a://AKID:hunter2X/y@bucket/x",
    "jdbc:oracle:thin:scott/hunter2X@//db:1521/svc",
    'conf["a.password"] = "hunter2X hunter2X"',
    "DB_PASSWORD='hunter2X hunter2X'",
    '{"password": "hunter2X hunter2X"}',
    '{\\"password\\": \\"hunter2X hunter2X\\"}',
    'x.ScramLoginModule required username="u" password="hunter2X y";',
    "AccountName=a;AccountKey=hunter2X==;EndpointSuffix=x",
    "https://a/b?sv=1&sig=hunter2X%3D&se=1",
    "(spark.x.password,hunter2X)",
    "{password=hunter2X hunter2X, user=u}",
    "<password>hunter2X</password>",
    (
        '"private_key": "-----BEGIN PRIVATE KEY-----\\nhunter2X\\nhunter2X\\n-----END '
        'PRIVATE KEY-----\\n"'
    ),
    "Authorization: Bearer hunter2X",
    "--password hunter2X --user u",
    "IDENTIFIED BY 'hunter2X hunter2X'",
    "basic.auth.user.info=KEY:hunter2X",
)
#: What on-call reads: not a letter of it is struck out.
SHOWN: Final = (
    'FATAL: password authentication failed for user "etl"',
    'org.postgresql.util.PSQLException: FATAL: password authentication failed for user "etl"',
    "Access denied for user 'etl'@'10.0.0.1' (using password: YES)",
    "Login failed for user 'etl'. ClientConnectionId:bbe08372-78c6-49fa-bbdc-3e4bea19623c",
    "ORA-01017: invalid username/password; logon denied",
    "token expired",
    "Token has expired",
    "the token has expired at 2024-01-02T03:04:05Z",
    "token is expired or doesn't exist anymore",
    (
        "org.apache.hadoop.security.token.SecretManager$InvalidToken: token "
        "(HDFS_DELEGATION_TOKEN token 123 for etl) can't be found in cache"
    ),
    (
        "org.apache.hadoop.security.token.SecretManager$InvalidToken: token (token for "
        "etl: HDFS_DELEGATION_TOKEN owner=etl@R, renewer=yarn, realUser=, "
        "issueDate=1700000000000, maxDate=1700604800000, sequenceNumber=123, "
        "masterKeyId=45) is expired"
    ),
    "KeyError: key",
    "KeyError: 'key'",
    "KeyError: 'token'",
    "primary key=id",
    "Duplicate entry '5' for key 'PRIMARY'",
    "partition key: 7",
    "SecretManager: SecretManager: authentication disabled; ui acls disabled",
    (
        "com.amazonaws.services.s3.model.AmazonS3Exception: Access Denied (Service: Amazon "
        "S3; Status Code: 403; Error Code: AccessDenied; Request ID: 79104EXAMPLEB723; S3 "
        "Extended Request ID: abcDEF123/+xyz=), S3 Extended Request ID: abcDEF123/+xyz="
    ),
    (
        "The AWS Access Key Id you provided does not exist in our records. (Service: "
        "Amazon S3; Status Code: 403; Error Code: InvalidAccessKeyId; Request ID: X)"
    ),
    (
        "An error occurred (InvalidAccessKeyId) when calling the ListObjectsV2 operation: "
        "The AWS Access Key Id you provided does not exist in our records."
    ),
    (
        "An error occurred (ExpiredToken) when calling the PutObject operation: The "
        "provided token has expired."
    ),
    (
        "The request signature we calculated does not match the signature you provided. "
        "Check your key and signing method. (Service: Amazon S3; Error Code: "
        "SignatureDoesNotMatch)"
    ),
    (
        "SdkClientException: Unable to load AWS credentials from any provider in the "
        "chain: EnvironmentVariableCredentialsProvider: Unable to load AWS credentials "
        "from environment variables (AWS_ACCESS_KEY_ID (or AWS_ACCESS_KEY) and "
        "AWS_SECRET_KEY (or AWS_SECRET_ACCESS_KEY))"
    ),
    (
        "No AWS Credentials provided by TemporaryAWSCredentialsProvider "
        "SimpleAWSCredentialsProvider EnvironmentVariableCredentialsProvider "
        "IAMInstanceCredentialsProvider"
    ),
    "fs.s3a.aws.credentials.provider=org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    "Class org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider not found",
    (
        "Failure to initialize configuration for storage account acc.dfs.core.windows.net: "
        "Invalid configuration value detected for fs.azure.account.key"
    ),
    "Configuration property acc.dfs.core.windows.net not found.",
    (
        "AADToken: HTTP connection to https://login.microsoftonline.com/x/oauth2/token "
        "failed for getting token from AzureAD. Http response: 401 Unauthorized"
    ),
    (
        "AADSTS7000215: Invalid client secret provided. Ensure the secret being sent in "
        "the request is the client secret value, not the client secret ID"
    ),
    "AADSTS700082: The refresh token has expired due to inactivity.",
    (
        "Server failed to authenticate the request. Make sure the value of Authorization "
        "header is formed correctly including the signature."
    ),
    (
        "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed "
        "during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512"
    ),
    (
        "org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to "
        "access topics: [orders]"
    ),
    (
        "org.apache.kafka.common.errors.GroupAuthorizationException: Not authorized to "
        "access group: g-1"
    ),
    ("org.apache.kafka.common.KafkaException: Failed to load SSL keystore /etc/ks.jks of type JKS"),
    "java.io.IOException: keystore password was incorrect",
    "java.io.IOException: Keystore was tampered with, or password was incorrect",
    "javax.security.auth.login.LoginException: Unable to obtain password from user",
    "LoginException: Client not found in Kerberos database (6)",
    (
        "Could not find a 'KafkaClient' entry in the JAAS configuration. System property "
        "'java.security.auth.login.config' is not set"
    ),
    "Login module control flag not specified in JAAS config",
    (
        "io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException: "
        "Unauthorized; error code: 401"
    ),
    (
        "snowflake.connector.errors.DatabaseError: 250001 (08001): Failed to connect to "
        "DB: a.snowflakecomputing.com:443. Incorrect username or password was specified."
    ),
    "JWT token is invalid. [0ce9eb56-821d-4ca9-a774-04ae89a0cf5a]",
    "Failed to fetch token: java.net.ConnectException: Connection refused",
    "Failed to obtain delegation token: Connection refused by host",
    (
        "Error getting access token from metadata server at: "
        "http://169.254.169.254/computeMetadata/v1/instance/service-accounts/default/token"
    ),
    "Could not read private key: No such file or directory",
    "Input PEM private key is invalid",
    "Private key must be specified in Snowflake streaming",
    "ParseException: mismatched input 'token' expecting {<EOF>, ';'}",
    "extraneous input 'token' expecting",
    "Syntax error at or near 'password'(line 1, pos 7)",
    "cannot resolve 'password' given input columns: [id, name]",
    (
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter "
        "with name `password` cannot be resolved. Did you mean one of the following? "
        "[`id`, `name`]. SQLSTATE: 42703"
    ),
    "[UNRESOLVED_COLUMN] with name `token` cannot be resolved. Did you mean [`tokens`, `id`]",
    (
        "com.fasterxml.jackson.core.JsonParseException: Unrecognized token 'hello': was "
        "expecting (JSON String, Number, Array, Object or token 'null', 'true' or 'false')"
    ),
    (
        "Unexpected character ('<' (code 60)): expected a valid value (JSON String, "
        "Number, Array, Object or token 'null', 'true' or 'false')"
    ),
    "Partition tokens-0 offset 5 is out of range",
    '{"tokens":{"0":5,"1":17}}',
    "KafkaV2[Subscribe[tokens]] {tokens-0=5, tokens-1=17}",
    "Set(tokens-0, tokens-1) are gone. Some data may have been missed",
    "maxTokens: 4096, num_tokens=12, tokens=55",
    (
        "This model's maximum context length is 4096 tokens. However, your messages "
        "resulted in 5000 tokens."
    ),
    'secrets "db-secret" not found',
    'MountVolume.SetUp failed for volume "token": secret "weir-token" not found',
    'Error from server (NotFound): secrets "x" not found',
    "secretName: db-secret",
    "spark.kubernetes.driver.secrets.name=/etc/x",
    "spark.kubernetes.authenticate.driver.serviceAccountName=spark",
    "Secret does not exist with scope: prod and key: db-password",
    "ssl.keystore.location = /etc/ks.jks",
    "ssl.key.password = null",
    "sasl.jaas.config = [hidden]",
    "sasl.login.callback.handler.class = null",
    "sasl.oauthbearer.token.endpoint.url = null",
    "sasl.mechanism = SCRAM-SHA-512",
    "ssl.keystore.type = JKS",
    "ssl.keystore.key = null",
    "ssl.keystore.certificate.chain = null",
    "sasl.oauthbearer.token.endpoint.url = https://idp/oauth2/token",
    "org.x.TokenExpiredException: it was issued yesterday",
    "TokenRefreshError: status 503",
    "spark.authenticate.secret must be set",
    "A secret key must be specified via the spark.authenticate.secret config",
    "passed: 5, failed: 2",
    "bypass=true",
    "compass: north",
    "Bypassing cache: x",
    "passThrough=5",
    "pass 2 of 3",
    "the job passed 'x'",
    "session id: 5f3c, sessionId=7b1e9c1c-1a2b-4c3d-8e4f-123456789abc",
    "queryId=..., runId=...",
    "idempotency key: 5-7",
    "cache key: abc",
    "row key=5",
    "sort key=ts",
    "key=5, code=7",
    "author=lee, authority=x, authentication=SIMPLE",
    "hadoop.security.authentication=kerberos",
    "SIMPLE authentication is not enabled. Available:[TOKEN, KERBEROS]",
    "AccessControlException: Client cannot authenticate via:[TOKEN, KERBEROS]",
    "java.lang.NoSuchMethodError: method signature mismatch",
    "jar signature is invalid",
    "Spark token provider: hadoopfs",
    "Delegation token provider hive requires x",
    "HadoopDelegationTokenManager: Failed to load built in provider: hive",
    "\tat org.apache.hadoop.security.token.Token.decodeFromUrlString(Token.java:240)",
    "\tat com.x.auth.SecretKeyFactory.get(SecretKeyFactory.java:5)",
    '  File "/app/job.py", line 5, in get_token\n    return self.token_provider.get(scope)',
    "TypeError: connect() got an unexpected keyword argument 'password'",
    "TypeError: login() missing 1 required positional argument: 'token'",
    "AttributeError: 'Conn' object has no attribute 'token'",
    "org.apache.spark.SparkSecurityException: [x] spark.network.crypto.enabled",
    "authorization failed: user etl lacks SELECT",
    (
        'HTTP/1.1 401 Unauthorized\nWWW-Authenticate: Bearer realm="x", '
        'error="invalid_token", error_description="The access token expired"'
    ),
    '{"error_code":"PERMISSION_DENIED","message":"Invalid access token."}',
    (
        '{"error":"invalid_client","error_description":"Invalid client secret", '
        '"error_codes":[7000215]}'
    ),
    "{'error': 'invalid password', 'status': 401}",
    "at offset 123 of topic user-passwords partition 3",
    "s3a://bucket/secrets/2024/part-0.parquet",
    "/data/tokens/part-0",
    "abfss://secrets@acc.dfs.core.windows.net/x",
    "hdfs://nn:8020/password/x",
    "delta table `secret`.`orders`",
    "class org.apache.hadoop.security.token.Token cannot be cast to class X",
    "mysql: [Warning] Using a password on the command line interface can be insecure.",
    "Invalid token: signature verification failed",
    "Invalid token: the nonce differs",
    "token: not found",
    (
        "Connection to node -1 (b/10.0.0.1:9092) failed authentication due to: Invalid "
        "username or password"
    ),
    (
        "java.lang.IllegalArgumentException: Error while instantiating "
        "'org.apache.spark.sql.hive.HiveSessionStateBuilder'"
    ),
    "Column password#12 of type string",
    "Project [id#1, password#2, token#3]",
    "+- Filter isnotnull(token#5)",
    "struct<id:int,password:string,token:string>",
    "password STRING, token STRING",
    "|-- password: string (nullable = true)",
    "root\n |-- token: string (nullable = true)\n |-- id: long",
    "Schema: password string, id int",
    "INSERT INTO t (password, token) VALUES (?, ?)",
    "http://registry:8081/subjects/a@b",
    "spark://h:7077",
    "Error while reading [file:/x@y:z/q@b]",
    "Serialized task 5:0 was 200 bytes, which exceeds max allowed: spark.rpc.message.maxSize",
    "cookiePolicy=standard",
    "s3a://lake/orders/part-00000-1b4e28ba-2fa1-11d2-883f-0016d3cca427-c000.snappy.parquet",
    "consumer-spark-kafka-source-1b4e28ba-2fa1-11d2-883f-0016d3cca427-1234567-driver-0-1",
    "Cluster q1Sh-9_ISia_zwGINzRvyQ, image sha256-5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b4",
    "topic orders-EU-2026-01-05-backfill, pod orders-7b9f8d6c5x-driver, app-20260105123456-0001",
    "Invalid token: denied. Failed to fetch token: http: is no scheme",
    "Unexpected token: {",
    "Unexpected token: { at 3, expected token: {, or token: }",
    "user-tokens -> {0=5, 1 -> 7}, user-tokens: { orders-0: 5 }, tokens: {}",
    'tokens: {\\n  \\"0\\": 5}, tokens: {\\"0\\": 5}, tokens: {%220%22: 5}, tokens: {a: 5}',
    "velox::Token::parse(x), at secret::Token::get(), at std::token::value<int>, token::next(",
    "<user password=***/>, password=***%2Cuser, password=***: refused, password=***. It ended",
    "password: must not be blank",
    "x\n - password: size must be between 8 and 20\napi_key: is required\nsecret: cannot be empty",
    f'x\n  File "/{"a" * 290}.py", line 5, in {"f" * 90}\n    token = a',
    'x\n  File "/a.py", line 5, in <module>\n    token = fetch(scope, key=name)',
    'x\n  File "/a.py", line 5, in f\n    self.token = await x.token\n        ^^^^^\nE: timed out',
    "no queue for routing key 'orders.created', routing_key=orders.eu, integration key: x",
    "GET /v1/input/7 and s3a://b/v1/input/part-0, https://h/integration/orders is down",
    "Authorization: not allowed for this user, authorization: Access denied",
    "the application keyboard, insert keys first, mapping keys, license: MIT",
    "thread spark-SparkListenerEventQueue2Bus is gone, shuffle-client-5-1 waits",
)
