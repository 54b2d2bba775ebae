"""The examples in the docstrings of public names run, and say what is true."""

import inspect
import re
import textwrap

import pytest

import ope_vpm as ov

OF_CHAINS = ("VPM", "Transitions", "StationaryEstimate", "weights")
OF_LOGS = ("from_table", "inspect", "evaluate", "compare", "select", "as_policy", "with_noise")
OF_PATHS = ("stationary", "timescales", "post_process_mcmc")


@pytest.mark.parametrize("name", [*OF_CHAINS, *OF_LOGS, *OF_PATHS])
def test_the_example_of_a_docstring_runs(name):
    documented = inspect.getdoc(getattr(ov.chain if name in OF_CHAINS else ov, name))
    (example,) = re.findall(r"```python\n(.*?)```", documented, re.DOTALL)
    assert "assert" in example
    exec(textwrap.dedent(example), {})
