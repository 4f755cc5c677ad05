# The agent, `weir agent`, as uid 10001. Nothing of it is written outside /var/lib/weir and /tmp.
#
#   make plugin && docker build -t registry.example.com/team/weir:0.1.0 .
#
# Base images are pinned by tag; pin a digest with --build-arg BASE=python:…@sha256:… where yours must be.
ARG BASE=python:3.12.11-slim-bookworm

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /src
COPY requirements/build.txt requirements/image.txt requirements/
# Two environments: what builds, and what runs, which gets neither pip nor setuptools.
RUN python -m venv /opt/build \
 && /opt/build/bin/pip install --require-hashes -r requirements/build.txt \
 && python -m venv --without-pip /opt/weir \
 && /opt/build/bin/pip --python /opt/weir/bin/python install --require-hashes --only-binary :all: -r requirements/image.txt
COPY pyproject.toml README.md LICENSE ./
COPY spark_listener spark_listener
COPY agent agent
COPY dashboards dashboards
COPY alerts alerts
# What drivers are lent is anybody's to read, whatever the modes of the files that the build was given.
RUN test -s spark_listener/plugin/weir-spark-plugin.jar || { echo "make plugin first: the image lends drivers its jar" >&2; exit 1; } \
 && /opt/build/bin/pip wheel --no-deps --no-build-isolation --no-index --wheel-dir /wheels ./spark_listener . \
 && /opt/build/bin/pip --python /opt/weir/bin/python install --no-deps --no-index /wheels/*.whl \
 && mkdir -p /usr/share/weir /var/lib/weir \
 && install -m 644 /wheels/weir_spark_listener-*.whl /usr/share/weir/weir_spark_listener.zip \
 && install -m 644 spark_listener/plugin/weir-spark-plugin.jar /usr/share/weir/

FROM ${BASE}
# The base brings pip, which nothing needs at run time.
RUN python -m pip uninstall --yes --quiet --root-user-action=ignore pip \
 && groupadd --gid 10001 weir \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/weir --shell /usr/sbin/nologin weir
COPY --from=build /opt/weir /opt/weir
# The plugin and the listener for drivers: on a cluster an init container lends it to them.
COPY --from=build /usr/share/weir /usr/share/weir
COPY --from=build --chown=10001:10001 /var/lib/weir /var/lib/weir
COPY LICENSE /usr/share/doc/weir/LICENSE
ENV PATH=/opt/weir/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 WEIR_STATE_DIR=/var/lib/weir
# By number, so that Kubernetes can tell that it is not root.
USER 10001:10001
WORKDIR /var/lib/weir
VOLUME /var/lib/weir
EXPOSE 9655
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 CMD ["python", "-c", "import os, pathlib, ssl, urllib.request as u; e = os.environ; a = pathlib.Path(e.get('WEIR_ADDRESS_FILE') or pathlib.Path(e['WEIR_STATE_DIR'], 'agent.address')).read_text().strip(); u.build_opener(u.ProxyHandler({}), u.HTTPSHandler(context=ssl._create_unverified_context())).open(a + '/healthz', timeout=4)"]
# Loopback is all it listens on until WEIR_HOST=0.0.0.0 and WEIR_TOKEN_FILE say otherwise.
ENTRYPOINT ["weir"]
CMD ["agent"]
