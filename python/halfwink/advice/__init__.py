"""Advice: the settings of a server or a fleet, also from recorded idle times."""
