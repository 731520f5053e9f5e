"""Reports: tables, plots and pages."""
