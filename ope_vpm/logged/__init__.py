"""Logged data in: the dataset, the importers and the doctor."""

from typing import TYPE_CHECKING

from ope_vpm.lazy import names_of

if TYPE_CHECKING:
    from ope_vpm.logged.dataset import LoggedDataset
    from ope_vpm.logged.doctor import Finding, Report, inspect
    from ope_vpm.logged.episode import Episode
    from ope_vpm.logged.formats import load_dataset
    from ope_vpm.logged.scan import scan_dataset
    from ope_vpm.logged.tables import from_table
else:
    __getattr__ = names_of(
        __name__,
        {
            "dataset": ("LoggedDataset",),
            "doctor": ("Finding", "Report", "inspect"),
            "episode": ("Episode",),
            "formats": ("load_dataset",),
            "scan": ("scan_dataset",),
            "tables": ("from_table",),
        },
    )

__all__ = ["Episode", "Finding", "LoggedDataset", "Report", "from_table", "inspect", "load_dataset", "scan_dataset"]
