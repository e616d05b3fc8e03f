"""tarl_jax: how each incoming claim must change an agent's long-term memory.

The parts are imported by name (`from tarl_jax import actions, types`); this file
imports nothing, so that the core loads where only jax, flax, optax and numpy are.
"""

__version__ = "0.1.0"
