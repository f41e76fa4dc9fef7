"""Alerts: `rules` are conditions over figures, `keeper` watches by them, `notices` tells others."""
