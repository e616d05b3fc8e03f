"""Shared fixtures; JAX is made strict before any test imports it."""

import os
import pathlib

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_NUMPY_RANK_PROMOTION", "raise")

import pytest


@pytest.fixture(scope="session")
def data_dir() -> pathlib.Path:
  """The folder with the real files, named by TARL_DATA_DIR; skips where it is absent."""
  folder = os.environ.get("TARL_DATA_DIR")
  if not folder or not pathlib.Path(folder).is_dir():
    pytest.skip("set TARL_DATA_DIR to the folder that holds halumem/ and locomo/")
  return pathlib.Path(folder)
