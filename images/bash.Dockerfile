# A shell with the usual tools, at home under any user id.
#
# Debian 12 by its tag, so that a build has the latest fixes. For a build that
# can be repeated, pin it: --build-arg BASE=debian:bookworm-slim@sha256:…
ARG BASE=debian:bookworm-slim
FROM ${BASE}

RUN apt-get update \
 && apt-get install --yes --no-install-recommends \
      ca-certificates curl jq procps unzip xz-utils zip \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/* /var/log/* \
 && groupadd --gid 1000 skerry \
 && useradd --uid 1000 --gid 1000 --no-create-home --home-dir /home/skerry --shell /bin/bash skerry \
 && install -d -m 1777 /home/skerry /tmp /workspace \
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} +

ENV HOME=/home/skerry \
    LANG=C.UTF-8 \
    LOGNAME=skerry \
    PATH=/home/skerry/.local/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin \
    TMPDIR=/tmp \
    USER=skerry \
    XDG_CACHE_HOME=/home/skerry/.cache \
    XDG_CONFIG_HOME=/home/skerry/.config \
    XDG_DATA_HOME=/home/skerry/.local/share \
    XDG_STATE_HOME=/home/skerry/.local/state
WORKDIR /workspace
USER 1000:1000
CMD ["bash"]
