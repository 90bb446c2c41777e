# `make train` and `make test` in a container, set up as in a clone:
#   docker build -t chess-lab .
#   docker run --rm chess-lab                                     make train
#   docker run --rm chess-lab make test
#   docker run --rm -v "$PWD/runs:/chess/runs" chess-lab make train ARGS="--run-dir runs/mine"
# --build-arg PIP_FLAGS="..." goes to pip install, as for `make setup`: the default build of torch brings CUDA along.
FROM python:3.11-slim-bookworm

# No compiler: every pinned package has a wheel. The tests ask git for the commit.
RUN apt-get update \
 && apt-get install -y --no-install-recommends git make stockfish \
 && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home --uid 1000 chess \
 && install -d -o chess -g chess /chess /chess/runs
USER chess
WORKDIR /chess
ARG PIP_FLAGS=""
ENV PIP_NO_CACHE_DIR=1 PATH=/chess/.venv/bin:$PATH

# What decides about the packages comes first: a changed source leaves the large layer as it is.
COPY --chown=chess:chess Makefile pyproject.toml constraints.txt README.md LICENSE ./
COPY --chown=chess:chess .ci/setup .ci/setup
RUN make setup

COPY --chown=chess:chess . .
# Nothing is installed again: the files that were copied anew may only look newer than what was set up from them.
RUN touch .venv/.installed
CMD ["make", "train"]
