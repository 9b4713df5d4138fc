"""Workers that `torchrun` starts, in processes of their own."""

import os
import subprocess
import sys
from pathlib import Path

import torch

from slatewise.data.preparation import prepare
from slatewise.model.config import ModelConfig
from slatewise.simulation import load_config, write_log
from slatewise.training import fit, runs
from slatewise.training.config import TrainingConfig
from slatewise.training.peers import Peers
from tests.training.test_peers import together

SETTINGS = (
    "[model]\ndimensions = 2\nlikelihood = 'slate'\n[training]\nmax_epochs = 1\nbatch_users = 40\n"
)


def test_two_workers_train_as_two_threads_do(tmp_path: Path) -> None:
    write_log(load_config("tiny", users=100), tmp_path / "log")
    dataset = prepare(tmp_path / "log", tmp_path / "log", tmp_path / "ds")
    (tmp_path / "run.toml").write_text(SETTINGS)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    torchrun += ["--master-addr", "127.0.0.1", "--master-port", "0", "--rdzv-backend", "c10d"]
    torchrun += ["--rdzv-endpoint", "127.0.0.1:0"]
    train = ["train", str(dataset.path), str(tmp_path / "run"), "--terms", "none", "--config"]
    done = subprocess.run(
        [*torchrun, "-m", "slatewise", *train, str(tmp_path / "run.toml")],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(str(tmp_path / "run")) == 1  # only the first worker prints

    model, training = ModelConfig(dimensions=2), TrainingConfig(max_epochs=1, batch_users=40)

    def worker(peers: Peers) -> dict[str, torch.Tensor]:
        return fit(dataset, model, training, peers=peers).posterior.tensors()

    expected, _ = together(2, worker)
    for name, tensor in runs.load(tmp_path / "run").posterior.tensors().items():
        assert torch.equal(tensor, expected[name]), name
