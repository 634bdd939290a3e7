"""The report: one HTML file that needs nothing else."""

from halfwink.report.page import Section, write_report

__all__ = ["Section", "write_report"]
