# Not run here: written for a machine with Docker, and tried on none. It calls the commands of the
# README:
#     docker build -t fedsim .
#     docker run --rm -v "$PWD/fedsim-results:/fedsim/fedsim-results" fedsim \
#         sweep --temporal 10 --gradient 0.01
FROM python:3.11-slim
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev make \
    && rm -rf /var/lib/apt/lists/*
ENV FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1 RAY_USAGE_STATS_ENABLED=0
WORKDIR /fedsim
COPY . .
# An index with torch's CPU build makes the image 5 GB smaller: --build-arg TORCH_INDEX=URL
ARG TORCH_INDEX=
RUN make install TORCH_INDEX="$TORCH_INDEX"
ENV PATH="/fedsim/.venv/bin:$PATH"
ENTRYPOINT ["fedsim"]
CMD ["--help"]
