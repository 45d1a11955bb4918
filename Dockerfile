# syntax=docker/dockerfile:1
# EXTRAS="embedded kafka" runs alone or spread. EXTRAS=kafka leaves the embedded engine out: it then
# needs a ClickHouse server, and is a third of the size.
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
ARG EXTRAS="embedded kafka"
ENV UV_PROJECT_ENVIRONMENT=/opt/groundwatch UV_PYTHON_DOWNLOADS=never UV_COMPILE_BYTECODE=1 \
    UV_LINK_MODE=copy UV_NO_CACHE=1
RUN pip install --no-cache-dir uv==0.13.9
WORKDIR /src
# Dependencies first: they change less often than the code, and need no compiler.
COPY pyproject.toml uv.lock ./
# hadolint ignore=SC2046
RUN UV_NO_BUILD=1 uv sync --frozen --no-dev --no-install-project $(printf -- '--extra %s ' ${EXTRAS})
COPY README.md LICENSE ./
COPY collector collector
COPY scorers scorers
COPY sinks sinks
COPY dashboards dashboards
# hadolint ignore=SC2046
RUN uv sync --frozen --no-dev --no-editable $(printf -- '--extra %s ' ${EXTRAS})

FROM python:${PYTHON}-slim
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin groundwatch \
 && install -d -m 0700 -o groundwatch -g groundwatch /var/lib/groundwatch \
 && install -d /etc/groundwatch \
 && printf '%s\n' 'data_dir: /var/lib/groundwatch' 'listen:' '  otlp_grpc: 0.0.0.0:4317' \
      '  otlp_http: 0.0.0.0:4318' '  metrics: 0.0.0.0:9464' '  review: 0.0.0.0:8088' \
      > /etc/groundwatch/groundwatch.yaml
COPY --from=build /opt/groundwatch /opt/groundwatch
# Nothing is written but below data_dir, and by the embedded engine in /tmp: with a read-only root
# file system give it a volume and a tmpfs.
ENV PATH=/opt/groundwatch/bin:$PATH PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
VOLUME /var/lib/groundwatch
EXPOSE 4317 4318 9464 8088
HEALTHCHECK --start-period=60s --interval=30s --timeout=6s \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:9464/healthz', timeout=5)"]
ENTRYPOINT ["groundwatch"]
CMD ["run", "-c", "/etc/groundwatch/groundwatch.yaml"]
