"""Logged data in: the dataset, the importers and the doctor."""

from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.doctor import Finding, Report, inspect
from ope_vpm.logged.episode import Episode
from ope_vpm.logged.formats import load_dataset
from ope_vpm.logged.scan import scan_dataset
from ope_vpm.logged.tables import from_table

__all__ = ["Episode", "Finding", "LoggedDataset", "Report", "from_table", "inspect", "load_dataset", "scan_dataset"]
