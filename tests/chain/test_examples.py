"""The examples in the docstrings of the public names of `ope_vpm.chain` run, and say what is true."""

import inspect
import re
import textwrap

import pytest

import ope_vpm as ov


@pytest.mark.parametrize("name", ["VPM", "Transitions", "StationaryEstimate", "weights"])
def test_the_example_of_a_docstring_runs(name):
    documented = inspect.getdoc(getattr(ov.chain, name))
    (example,) = re.findall(r"```python\n(.*?)```", documented, re.DOTALL)
    assert "assert" in example
    exec(textwrap.dedent(example), {})
