"""What a type checker says of `evaluate`: each form of question has its own type of answer, and typos are errors."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

import ope_vpm as ov
from ope_vpm.chain.vpm import SOLVERS
from ope_vpm.ope.evaluate import Choices

CODE = """
from typing import Any
import ope_vpm as ov
from ope_vpm.policy import TargetPolicy

def ask(data: Any, policy: TargetPolicy) -> None:
    reveal_type(ov.evaluate(data, policy))
    reveal_type(ov.evaluate(data, policy, ["auto", "dr"]))
    reveal_type(ov.evaluate(data, policy, gamma=[0.9, 1.0]))
    reveal_type(ov.evaluate(data, {"a": policy}, "vpm", seed=1, n_features=20, behaviour="logged"))
    reveal_type(ov.evaluate(data, {"a": policy}, ["auto"], gamma=[0.9])["a"][0.9]["auto"])
    reveal_type(ov.evaluate(data, {"south": "free", "north": "none"}))
    reveal_type(ov.evaluate(data, policy, "all"))
    reveal_type(ov.evaluate(data, {"a": policy}, "all"))
    reveal_type(ov.evaluate(data, policy, "all", gamma=[0.9, 1.0]))
    ov.compare(data, policy, n_feature=20)
    ov.select(data, {"a": policy}, n_feature=20)
    ov.evaluate(data, policy, gama=0.9)
"""
ALL = "ope_vpm.ope.questions.agreement.AllValues"
VALUE, VALUES = "ope_vpm.ope.inference.value.PolicyValue", "ope_vpm.ope.inference.values.PolicyValues"


@pytest.mark.slow
def test_answers_are_typed_and_typos_are_errors(tmp_path):
    api = pytest.importorskip("mypy.api")
    file = tmp_path / "asked.py"
    file.write_text(CODE)
    settings = str(Path(__file__).parents[1] / "pyproject.toml")
    printed, _, _ = api.run(["--strict", "--config-file", settings, str(file)])
    types = [line.partition('type is "')[2].rstrip('"') for line in printed.splitlines() if "Revealed" in line]
    by_name = f"{VALUES}[str, {VALUE}]"
    assert types == [
        VALUE,
        by_name,
        f"{VALUES}[float, {VALUE}]",
        by_name,
        VALUE,
        VALUE,
        ALL,
        f"{VALUES}[str, {ALL}]",
        f"{VALUES}[float, {ALL}]",
    ]
    assert printed.count('Unexpected keyword argument "n_feature"') == 2
    assert 'Unexpected keyword argument "gama"' in printed


def test_every_setting_of_every_estimator_is_known_to_type_checkers():
    kinds = [kind for kind in [*ov.estimators().values(), *SOLVERS.values()] if is_dataclass(kind)]
    named = {field.name for kind in kinds if kind.__module__.startswith("ope_vpm") for field in fields(kind)}
    assert named <= set(Choices.__annotations__)
