"""The owner's day."""

from __future__ import annotations

from datetime import datetime


def day_start(moment: datetime) -> datetime:
    """When the local day of ``moment`` began, in the same zone: budgets and usage are counted from there."""
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)
