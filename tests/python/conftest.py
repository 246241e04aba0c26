# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
import pytest
import torch

# Thousands of tiny calls: threads that wait for each other would cost more than they compute, above
# all where several tests share the cores. test_layout.py covers several threads.
torch.set_num_threads(1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes a minute; run by pytest --slow")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run tests that take a minute, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow"):
        return
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="takes a minute: pytest --slow runs it"))
