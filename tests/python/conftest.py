# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
import torch

# Thousands of tiny calls: threads that wait for each other would cost more than they compute, above
# all where several tests share the cores. test_layout.py covers several threads.
torch.set_num_threads(1)
