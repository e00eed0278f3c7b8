"""Models are those of tests/parity, written once for both.

JACSERVE_FRAMEWORK says whose tests are collected: keras, torch or jax. One process holds one framework, since the
builds of torch and TensorFlow that pip installs do not live in one. `make frameworks-test` runs the three in turn.
"""

from __future__ import annotations

import os
import sys

from golden import REPOSITORY

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.pop("JACSERVE_EXPORT_CACHE", None)
sys.path.insert(0, str(REPOSITORY / "tests/parity"))

FILES = {
    "keras": ["test_keras.py", "test_tf_drop_in.py", "test_demo.py"],
    "torch": ["test_torch.py", "test_torch_drop_in.py"],
    "jax": ["test_jax.py", "test_jax_drop_in.py", "test_export_cache.py"],
}
_chosen = os.environ.get("JACSERVE_FRAMEWORK", "")
collect_ignore = [file for framework, files in FILES.items() if framework != _chosen for file in files]
