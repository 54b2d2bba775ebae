"""Processes and environments with known answers. Importing the package registers `ope_vpm/Taxi-v0` with gymnasium."""

from gymnasium import register, registry

if "ope_vpm/Taxi-v0" not in registry:
    register(id="ope_vpm/Taxi-v0", entry_point="ope_vpm.envs.taxi:TaxiEnv")
