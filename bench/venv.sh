# Sourced by the scripts beside it and by `just fixtures`, from the repository's root: sets `venv` to an environment with
# PyTorch, and creates it if it is missing.
venv=.venv-pytorch
if [ ! -e "$venv/ready" ]; then
    echo "installing PyTorch into $venv" >&2
    python3 -m venv "$venv"
    # Not only the subset that libtorch needs: the Python part of PyTorch loads every CUDA library, even without a GPU.
    "$venv/bin/pip" install --quiet torch==2.11.0 torchvision==0.26.0 numpy
    "$venv/bin/python" -c 'import torch, torchvision'
    touch "$venv/ready"
fi
