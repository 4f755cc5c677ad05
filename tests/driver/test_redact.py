"""Secrets as real connectors, clouds and clients write them: none is left, and the rest is."""

from __future__ import annotations

import json
import re
import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spark_listener.progress import read_progress
from spark_listener.redact import LONGEST_TEXT, redact, redact_conf, redact_event, redact_long
from tests.leaks import CUT, LEAKS, SECRET, SHOWN

S = "hunter2X/y+z9=="  # as of AWS and Azure: slashes, plus, equals
W = "hunter2X"
SHAPES = [
    ("jdbc:postgresql://db:5432/orders?user=app&password={W}", "jdbc:postgresql://db:5432/orders"),
    ("jdbc:sqlserver://db:1433;databaseName=o;user=sa;password={S};encrypt=true", "databaseName=o"),
    ("jdbc:mysql://app:{W}@db:3306/orders", "jdbc:mysql://db:3306/orders"),
    ("jdbc:oracle:thin:scott/{W}@//db:1521/svc", "db:1521/svc"),
    ("jdbc:oracle:thin:scott/{S}@db:1521:sid", "db:1521:sid"),
    ("jdbc:snowflake://x.snowflakecomputing.com/?user=a&password={S}", "snowflakecomputing.com"),
    ("Snowflake[sfUser -> a, sfPassword -> {W}, sfDatabase -> d]", "sfDatabase -> d"),
    (
        (
            "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="$ConnectionString" password="Endpoint=sb://ns.servicebus.windows.net/;'
            'SharedAccessKeyName=k;SharedAccessKey={S}";'
        ),
        "PlainLoginModule",
    ),
    ("ScramLoginModule required username='u' password='{W} with spaces';", "ScramLoginModule"),
    ('"sasl.jaas.config":"x required password=\\\\"{W}\\\\";"', "required"),
    ('{{"ssl.keystore.password": "{S}", "a": 1}}', '"a": 1'),
    ("ssl.key.password = [{W}]", "ssl.key.password"),
    ("ssl.keystore.key=-----BEGIN PRIVATE KEY-----\n{S}\n-----END PRIVATE KEY----- and", " and"),
    ("-----BEGIN RSA PRIVATE KEY-----\n{S}\n{S}", ""),
    ("s3a://AKID:{S}@bucket/path", "s3a://bucket/path"),
    ("s3a://AKID:{W}@bucket/path", "s3a://bucket/path"),
    ("fs.s3a.secret.key={S}", "fs.s3a.secret.key"),
    ("(spark.hadoop.fs.s3a.secret.key,{S})", "spark.hadoop.fs.s3a.secret.key"),
    ("Map(awsSecretKey -> {S}, region -> eu-west-1)", "region -> eu-west-1"),
    ("AWS_SECRET_ACCESS_KEY={S} AWS_REGION=eu", "AWS_REGION=eu"),
    ("fs.azure.account.key.acc.dfs.core.windows.net={S}", "fs.azure.account.key"),
    (
        "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={S};EndpointSuffix=x",
        "EndpointSuffix=x",
    ),
    ("wasbs://c@a.blob.core.windows.net/d?sv=2020&sig={W}", "wasbs://c@a.blob.core.windows.net/d"),
    ("SAS: sv=2020-08-04&ss=b&sig={S}&se=2030", "sv=2020-08-04"),
    ("SharedAccessSignature=sv=2020&sig={S}", ""),
    ("eventhubs.connectionString: Endpoint=sb://n/;SharedAccessKey={S};EntityPath=e", "Entity"),
    ("https://user:{W}@es:9200/index", "https://es:9200/index"),
    ("es.net.http.auth.pass = {W}", "es.net.http.auth.pass"),
    ("mongodb+srv://u:{W}@cluster/db?authSource=admin", "mongodb+srv://cluster/db"),
    ("redis://:{W}@cache:6379/0", "redis://cache:6379/0"),
    ("amqp://u:{W}@mq/vhost", "mq/vhost"),
    ("spark.cosmos.accountKey={S}", "spark.cosmos.accountKey"),
    ('clientSecret: "{S}"', "clientSecret"),
    ("ENCRYPTION = (TYPE = 'AWS_CSE' MASTER_KEY = '{S}') FILE_FORMAT", "FILE_FORMAT"),
    ("CREATE USER app IDENTIFIED BY '{S}' REQUIRE SSL", "REQUIRE SSL"),
    ("create user app identified by '{W}' require ssl", "require ssl"),
    ("ALTER USER app IDENTIFIED BY {W} ACCOUNT UNLOCK", "ACCOUNT UNLOCK"),
    ('identified with mysql_native_password by "{S}", x', ", x"),
    ("fs.azure.account.oauth2.client.secret.acc={S}", "oauth2"),
    ("Authorization: Bearer {W}", "Authorization"),
    ("authorization: Basic aHVudGVyMlg6aHVudGVyMlg= x", " x"),
    ("header 'Authorization: Bearer {S}' refused", "refused"),
    ("x-api-key: {W}", "x-api-key"),
    ("api_key={W}, model=m", "model=m"),
    ("token dapi" + "0123456789abcdef" * 2, "token"),
    ("by key AKIAIOSFODNN7EXAMPLE denied", "denied"),
    (f"401 with dt0c01.{'A1' * 12}.{'B2' * 32} from", "401 with *** from"),
    (f"refused NRAK-{'A1' * 14} here", "refused *** here"),
    (f"refused glc_{'aB1' * 8} here", "refused *** here"),
    ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJodW50ZXIyWCJ9.{W} expired", "expired"),
    ("FileSink[s3a://K:{S}@b/x?q=1] done", "done"),
    ("pwd={W}", "pwd"),
    ("password => {W}", "password"),
    ("PASSWORD = '{W}'", "PASSWORD"),
    ('{{\\"password\\":\\"{W}\\",\\"a\\":1}}', "a"),
    ("Provided options: {{user=a, password={W}, url=jdbc:h2:mem}}", "url=jdbc:h2:mem"),
    # addresses as clients of HTTP print them, without their host
    (
        (
            "HTTPSConnectionPool(host='maps.googleapis.com', port=443): Max retries exceeded with "
            "url: /maps/api/geocode/json?address=x&key={W} (Caused by NewConnectionError())"
        ),
        "url: /maps/api/geocode/json (Caused by",
    ),
    ("Max retries exceeded with url: /api/ingest?code={S} (Caused by)", "url: /api/ingest (Caused"),
    ("Max retries exceeded with url: /api/ingest?{W} (Caused by)", "url: /api/ingest (Caused"),
    ('"POST /api/ingest?batch=7&code={S} HTTP/1.1" 401', '"POST /api/ingest HTTP/1.1" 401'),
    ("body address=x&key={W}&language=en", "&language=en"),
    # paths that are a secret
    (
        "404 Client Error: Not Found for url: https://hooks.slack.com/services/T0AAA/B0BBB/{W}",
        "for url: https://hooks.slack.com/services/",
    ),
    ("Max retries exceeded with url: /services/T0AAA/B0BBB/{W} (Caused by)", "(Caused by"),
    ("https://hooks.slack.com/workflows/T0AAA/A0BBB/123456/{W}", "hooks.slack.com/workflows/"),
    ("https://hooks.slack.com/triggers/T0AAA/123456/{W}", "hooks.slack.com/triggers/"),
    ("https://discord.com/api/webhooks/123456/{W} 404", "discord.com/api/webhooks/"),
    ("https://discordapp.com/api/v10/webhooks/123456/{W} 404", "discordapp.com/api/v10/"),
    ("https://a.webhook.office.com/webhookb2/0@1/IncomingWebhook/{W}/{W}", "webhook.office.com"),
    ("https://hooks.zapier.com/hooks/catch/123456/{W}", "hooks.zapier.com/"),
    ("https://maker.ifttt.com/trigger/failed/with/key/{W}", "ifttt.com/trigger/failed/"),
    ("Max retries exceeded with url: /bot123456:{W}/sendMessage (Caused by)", "(Caused by"),
    ("https://api.telegram.org/bot123456:{W}/sendMessage", "api.telegram.org/"),
    # braces quote
    (
        "jdbc:sqlserver://db:1433;user=sa;password={{x;{W}}};encrypt=true",
        "password=***;encrypt=true",
    ),
    ("Driver={{ODBC Driver 18}};UID=sa;PWD={{x;}}}};{W}}};Encrypt=yes", "PWD=***;Encrypt=yes"),
    ("PWD={{x;{W}", "PWD=***"),
    ("fs.s3a.encryption.key={S}", "fs.s3a.encryption.key"),
    ("fs.s3a.server-side-encryption.key={S}", "fs.s3a.server-side-encryption.key"),
    ("x-amz-server-side-encryption-customer-key: {S}", "encryption-customer-key"),
    ("(spark.hadoop.fs.s3a.encryption.key,{S})", "spark.hadoop.fs.s3a.encryption.key"),
    ("Ocp-Apim-Subscription-Key: {W}", "Ocp-Apim-Subscription-Key"),
    ("x-functions-key: {S}", "x-functions-key"),
    ("authorization: bearer {W} refused", "refused"),
    ("'authorization': 'bearer {S}', 'accept': '*/*'", "'accept': '*/*'"),
    ('{{\\"authorization\\":\\"bearer {W}\\",\\"a\\":1}}', "a"),
    *(
        (f"Authorization: {scheme} {{W}}, b", f"Authorization: {scheme} ***, b")
        for scheme in ("Splunk", "token", "ApiKey", "SharedKey", "SharedKeyLite", "AWS", "BASIC")
    ),
    # quoted behind a name, with no sign between or a comma, as in SQL and in a traceback's lines
    (
        '  File "/jobs/j.py", line 7, in <module>\n    .option("password", "{W}")',
        '.option("password", ***)',
    ),
    ("spark.conf.set('fs.azure.account.key.acc','{S}')", "set('fs.azure.account.key.acc',***)"),
    ('{{\\"sfPassword\\", \\"{W}\\"}} a', "a"),
    (
        "OPTIONS (url \"jdbc:h2:mem\", user 'username', password '{W}')",
        "user 'username', password ***)",
    ),
    ("run --token '{W}' --user a", "run --token *** --user a"),
    ("OPTIONS (access.token '{W}', 'token' '{W}')", "(access.token ***, 'token' ***)"),
    ("OPTIONS ('es.net.http.auth.pass' \"{S}\", a 'b')", "'es.net.http.auth.pass' ***, a 'b')"),
    ("confluent.schema.registry.basic.auth.user.info -> KEY:{W}, a -> b", ".info -> ***, a -> b"),
    ("basic.auth.user.info=KEY:{S}", "basic.auth.user.info=***"),
    *((f"body a=b&{name}={{W}}&c=d", f"{name}=***&c=d") for name in ("auth", "code", "sas")),
]
KNOWN = (S, W, "hunter2", "aHVudGVyMlg6", "0123456789abcdef", "AKIAIOSFODNN7EXAMPLE", "eyJ")


@pytest.mark.parametrize(("shape", "kept"), SHAPES)
def test_secrets_of_the_real_world_are_struck_out(shape: str, kept: str) -> None:
    text = shape.format(S=S, W=W)
    for around in ("{}", "Sink[{}]", "java.lang.X: cannot connect to {} (see log)\n\tat a.b.c"):
        said = redact(around.format(text))
        assert not any(secret in said for secret in KNOWN), said
        assert kept in said, said
        assert redact(said) == said


@pytest.mark.parametrize(("text", "left"), LEAKS)
def test_secrets_as_people_post_them_are_struck_out_and_nothing_else(text: str, left: str) -> None:
    assert redact(text) == left
    assert redact(left) == left
    assert SECRET not in redact(f"java.sql.X: {text} (see log)\n\tat a.b.c\nCaused by: y: {text}")


@pytest.mark.parametrize("text", SHOWN)
def test_failures_without_a_secret_are_shown_as_they_are(text: str) -> None:
    assert redact(text) == text
    assert redact(f"Job aborted: {text}\n\tat a.b.c").endswith(f"{text}\n\tat a.b.c")


@pytest.mark.parametrize("text", CUT)
def test_a_text_that_is_cut_anywhere_shows_nothing_of_a_secret(text: str) -> None:
    for end in range(len(text) + 1):
        said = redact(text[:end])
        assert SECRET not in said, said


PLAIN = [
    "KafkaV2[Subscribe[orders,tokens]]",
    "DeltaSource[abfss://container@account.dfs.core.windows.net/x]",
    "FileStreamSource[file:/data/in]",
    "java.lang.OutOfMemoryError: Java heap space",
    "org.x.TokenExpiredException: it was issued yesterday",
    "ExpiredToken: The provided token has expired",
    "Offsets out of range with no configured reset policy for partitions: {orders-0=5}",
    "key = null, value = 5; partition key: 7",
    "the password must not be empty",
    "local[2]",
    "me@example.org",
    "Max retries exceeded with url: /api/ingest (Caused by NewConnectionError())",
    "404 Client Error: Not Found for url: https://host/services/orders/v1",
    "FileSink[s3a://bucket/webhooks/2024/part-0]",
    "/data/triggers/x, /data/services/y, /data/bots/z",
    "FileStreamSource[file:/data/year=202?/month=1]",
    "(/data/202?/part-1)",
    "spark.io.encryption.keySizeBits=128, spark.io.encryption.keygen.algorithm=HmacSHA1",
    "Authorization: the caller may not write",
    "authorization failed for bearer of a role",
    "key=5, code=7, ?x=1&codec=lz4&keys=3",
    "Map(orders -> {0=5}, options -> {a;b})",
    "basic.auth.credentials.source -> USER_INFO, credential_source=Environment",
    "cannot resolve token\n'Project ['orders]",  # a plan, in which an apostrophe is none's end
    "JsonParseException: Unrecognized token 'foo': was expecting (JSON String, Number)",
    "no viable alternative at or near token 'ORDERS'; Unexpected token \"<\" at 1",
    '{"error":"invalid token", "message":"it was issued yesterday"}',
    '{"error" : "invalid token",\n  "message" : "it was issued yesterday"}',
]


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


NAMES = st.sampled_from(["password", "kafka.ssl.key.password", "AccountKey", "my_api_key", "token"])
JOINS = st.sampled_from(
    [
        "=",
        ": ",
        " = ",
        " -> ",
        ":",
        '="',
        '": "',
        "='",
        '", "',
        " '",
        '"] = "',
        "=f'",
        ': ["',
        ":=",
        "('",
    ]
)
NOISE = st.text(alphabet="abc =:;,/'\"{}()[]\n@?&", max_size=30)


@settings(deadline=None)
@given(before=NOISE, name=NAMES, join=JOINS, after=NOISE)
def test_a_value_behind_a_secrets_name_is_never_left(
    before: str, name: str, join: str, after: str
) -> None:
    # What a parser stumbled over, and a key of JSON, are none's.
    assume(
        not (name == "token" and join == " '")
        and not (join == '", "' and re.match(r'"\s?:', after))
    )
    quote = '"' if join[0] == '"' else ""
    text = f"{before} {quote}{name}{join}hunter2{after}"
    assert "hunter2" not in redact(text)
    event = {"body": {"sources": [{"description": text}], "sink": {"description": text}}}
    assert "hunter2" not in json.dumps(redact_event(event))


@pytest.mark.parametrize("told", ["password '{W}", '"password", "{W}', '\\"secret\\" \\"{W}'])
def test_a_quote_that_nothing_closes_ends_with_its_line(told: str) -> None:
    cause = "\nCaused by: java.io.IOException: No space left on device, as of 'orders'"
    assert redact(told.format(W=W) + cause).endswith(f" ***{cause}")


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_taken(text: str) -> None:
    redact(text)


def test_a_long_text_takes_no_longer_for_each_of_its_characters() -> None:
    def seconds(text: str) -> float:
        begun = time.process_time()
        redact(text)
        return time.process_time() - begun

    for piece in (
        "a",
        "a.",
        "secret",
        "password=",
        "x://",
        "a:b@",
        '\\"',
        "eyJ",
        "s3a://a:",
        "-",
        " /a",
        "url: /",
        "/a?b",
        "&key=",
        "password={",
        ";pwd={",
        "password={\n",
        "}}",
        "/bot1:",
        "/services/T1/B1/",
        "authorization: ",
        "authorization:bearer ",
        "encryption",
        "token,",
        "token '",
        '"token", ',
        '"token" ',
        "token  ",
        "token," * 45 + " ",  # too short to be a value, unless its bracket closes
        "eyJ-",
        "eyJ-" * 400 + " ",
        "password=[\n",
        "password='\\'",
        "password: |\n x",
        ";password=a b",
        "\npassword=, ",
        "(password,a ",
        "{password=" + "b " * 100,
        "secret{a}",
        'secret"+a+"',
        "password</a><value",
        "\\\\",
        "password=\\\\",
        "http://a:b/",
        "jdbc:oracle:thin:a/",
        "-u a:",
        "ghp_Aa1",
        "bearer a",
        "\nA",
        'x://?a="b',
        " /a?b=)",
        "token:{a}",
        "token: {a",
        "token::a",
        "token=***.",
        "eyJabcdefgh.",
    ):
        small = min(seconds(piece * (3_000 // len(piece))) for _ in range(3))
        large = min(seconds(piece * (24_000 // len(piece))) for _ in range(2))
        assert large < 8 * 4 * small + 0.02, piece


def test_a_mebibyte_of_what_is_hardest_takes_twice_as_long_as_half_of_it() -> None:
    def seconds(length: int) -> float:
        hard = 'password=[\n (token,a "secret" " pw=\'\\\' x://a:b/ a.key: a b '
        text = hard * (length // len(hard))
        begun = time.process_time()
        redact(text)
        return time.process_time() - begun

    assert seconds(2**20) < 3 * seconds(2**19) + 0.1


def test_a_setting_is_struck_out_to_the_end_of_its_line() -> None:
    said = redact(
        "HOME=/r\n  DB_PASSWORD=hunter2 hunter2, hunter2\nexport A_TOKEN=hunter2 hunter2\nB=c"
    )
    assert said == "HOME=/r\n  DB_PASSWORD=***\nexport A_TOKEN=***\nB=c"
    assert redact("DB_PASSWORD=hunter2 DB_HOST=db refused") == "DB_PASSWORD=*** DB_HOST=db refused"
    for value in ("a hunter2", "a, b=hunter2", "'a' hunter2", 'a"hunter2', "a;hunter2"):
        assert redact_conf("spark.x.password", value) == "***"


@pytest.mark.parametrize("length", [2, 60, 100])
def test_a_name_is_as_long_as_people_give_it(length: int) -> None:
    assert redact(f"db.password{'x' * length}=hunter2") == f"db.password{'x' * length}=***"
    assert redact(f"-{'x' * (length - 2)}-token hunter2").endswith("-token ***")


@pytest.mark.parametrize("blanks", [1, 100, 140])
def test_a_value_with_blanks_ends_with_the_next_pair(blanks: int) -> None:
    value = f"hunter2{' x' * blanks}"
    assert redact(f"{{a=b, password={value}, c=d}}") == "{a=b, password=***, c=d}"
    assert redact(f"Server=x;Password={value};Database=d") == "Server=x;Password=***;Database=d"
    assert redact(f"(a.password,{value})") == "(a.password,***)"


def test_settings_and_events() -> None:
    assert redact_conf("spark.sql.shuffle.partitions", "8") == "8"
    assert redact_conf("spark.x.password", "hunter2") == "***"
    assert redact_conf("spark.x", "s3a://k:hunter2@b/p") == "s3a://b/p"
    event = {
        "type": "started",
        "time": "2026-11-21T08:55:02.865Z",
        "body": {
            "id": "token=x",
            "sink": "jdbc:x;password=hunter2",
            "checkpointLocation": "s3a://k:hunter2@b/p",
            "conf": {"a": "password=hunter2", "b.secret": "hunter2", "c": "1"},
            "exception": "password=hunter2",
        },
        "limits": [{"source": 0, "note": "token: hunter2"}],
    }
    said = redact_event(event)
    assert "hunter2" not in json.dumps(said)
    assert said["body"]["id"] == "token=x"
    assert said["body"]["conf"]["c"] == "1"
    assert said["time"] == event["time"]


def test_a_secret_is_struck_out_however_long_it_is() -> None:
    for length in (10, 299, 300, 1_999, 2_000, 10_000):
        told = f"(spark.x.token,{'a' * length}{W}) by eyJ{'b' * length}.{W} expired"
        assert redact(told) == "(spark.x.token,***) by *** expired", length


@pytest.mark.parametrize("before", ["", "token=" + "b" * 25_000 + " "])
def test_of_a_secret_that_a_cut_goes_through_nothing_is_kept(before: str) -> None:
    for length in (40, 25_000, 70_000, 100_000):
        for told in (f"password={'A' * length}", f"(spark.x.token,{'A' * length})"):
            for after in ("", " x" * 16_000):
                assert "AA" not in redact_long(f"{before}{'x ' * 16_000}{told}{after}")
                assert "AA" not in redact_long(f"{before}{told}{after}")


@pytest.mark.parametrize("told", [f"(spark.x.token,{'A' * 40})", f"s3a://AK:{'A' * 40}@bucket/x"])
def test_of_a_secret_that_the_first_cut_goes_through_nothing_is_kept(told: str) -> None:
    """Where so much before it was struck out that the cut is among what is kept."""
    for length in range(31_900, 32_000, 7):
        assert "AA" not in redact_long(f"token={'b' * length} {told}{' x' * 20_000}")


def test_of_a_text_without_end_the_ends_are_looked_at_and_kept() -> None:
    text = f"it begins {'x ' * 1_000_000}and ends"
    said = redact_event({"exception": text, "conf": {"a": text}})
    for one in (said["exception"], said["conf"]["a"]):
        assert len(one) <= LONGEST_TEXT
        assert one.startswith("it begins x x ")
    assert said["exception"].endswith(" x x and ends")
    body = {"id": "q", "runId": "r", "sources": [{"description": text}], "sink": {}}
    assert len(read_progress(json.dumps(body)).text) < LONGEST_TEXT + 1000


def test_a_sentence_is_no_value_but_a_password_that_begins_like_one_is() -> None:
    assert "The-hunter2" not in redact("password=The-hunter2")
    assert "The" not in redact("password=The x")
    assert redact("password: must be Hunter2") == "password: ***"
    assert redact("password: must not be blank, but was hunter2") == "password: ***"


def test_a_progress_goes_out_without_what_its_sources_and_sink_let_slip() -> None:
    body = {
        "id": "q", "runId": "r", "timestamp": "2026-11-21T08:55:02.865Z",
        "sources": [{"description": "Jdbc[url=jdbc:x, password=hunter2]", "numInputRows": 5}],
        "sink": {"description": "s3a://k:hunter2/x@b/p"},
    }  # fmt: skip
    said = read_progress(json.dumps(body))
    assert "hunter2" not in said.text
    assert json.loads(said.text)["sources"][0]["numInputRows"] == 5
    plain = json.dumps({**body, "sources": [], "sink": {"description": "noop"}})
    assert read_progress(plain).text == plain


def test_what_a_job_observes_of_its_rows_stays_in_the_driver() -> None:
    body = {"id": "q", "runId": "r", "timestamp": "2026-11-21T08:55:02.865Z", "batchId": 7}
    observed = {**body, "observedMetrics": {"m": {"last_error": "user 4711 said hunter2"}}}
    assert json.loads(read_progress(json.dumps(observed)).text) == body


def test_what_ends_with_two_braces_is_json_and_the_rest_of_its_line_stays() -> None:
    told = 'offsets {"user-tokens":{"0":123}} rejected: java.lang.OutOfMemoryError: Java heap space'
    assert "OutOfMemoryError: Java heap space" in redact(told)
    told = 'token={"a":{"b":"SECRET"}} refused: No space left on device'
    assert "No space left on device" in redact(told)
    assert "SECRET" not in redact(told)
    assert redact("PWD={SE;CR}}ET};encrypt=true") == "PWD=***;encrypt=true"


def test_folders_that_are_called_as_a_hook_keep_their_path() -> None:
    """Two checkpoints below one must not be taken for the same."""
    for path in (
        "s3a://lake/ck/IncomingWebhook/orders",
        "/data/services/TRADES/BOOKS/part-1.parquet is missing",
        "hdfs://nn/hooks/catch/users",
    ):
        assert redact(path) == path
        assert redact_event({"checkpointLocation": path}) == {"checkpointLocation": path}
