"""Results as tables, kept runs, and what they say: savings, intervals, sentences."""
