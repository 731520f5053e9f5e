"""The doctor: what is wrong with a data set, found before anything is trained on it."""

from likewise.data.doctor.contact_sheet import contact_sheet
from likewise.data.doctor.dataset_report import DatasetReport
from likewise.data.doctor.examination import diagnose_dataset

__all__ = ["DatasetReport", "contact_sheet", "diagnose_dataset"]
