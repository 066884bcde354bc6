# Emend for a CPU. The build fails where the demo does not run.
#   docker build -t emend .
#   docker run --rm -v "$PWD/runs:/home/emend/runs" emend run --benchmark tinyworld --editor rag --model tiny --out runs/first
FROM python:3.11-slim

RUN useradd --create-home --uid 1000 emend
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY emend emend
COPY memory memory
COPY agents agents
COPY graphs graphs
COPY editors editors
COPY evals evals

# PyTorch's index of CPU builds saves the CUDA libraries, which take gigabytes.
RUN python -m pip install --no-cache-dir -c constraints.txt \
    --extra-index-url https://download.pytorch.org/whl/cpu '.[openai,anthropic,minilm,lora,covariance,gguf,extract,pandas,plot,view,otel]'

USER 1000
WORKDIR /home/emend
ENV HF_HUB_OFFLINE=1 ANONYMIZED_TELEMETRY=False
RUN emend doctor && emend demo --edits 4 --out /tmp/demo && rm -r /tmp/demo

ENTRYPOINT ["emend"]
CMD ["--help"]
