# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Two processes over Gloo train as one does."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from distributed_worker import make_model, make_tokens, train
from support import assert_close

WORKER = Path(__file__).with_name("distributed_worker.py")


@pytest.mark.parametrize("way", ["ddp", "fsdp2"])
def test_two_processes_train_as_one(way, tmp_path):
    ranks = [
        subprocess.Popen([sys.executable, WORKER, way, str(rank), "2", tmp_path])
        for rank in range(2)
    ]
    try:
        assert [process.wait(timeout=120) for process in ranks] == [0, 0]
    finally:
        for process in ranks:
            process.kill()
    losses, weights = torch.load(tmp_path / "results.pt")

    model = make_model()
    expected = train(model, make_tokens())
    assert expected[-1] < expected[0]
    assert_close(losses, torch.tensor(expected, dtype=torch.float64), 1e-12)
    for name, tensor in model.state_dict().items():
        assert_close(weights[name], tensor, 1e-9, name)
