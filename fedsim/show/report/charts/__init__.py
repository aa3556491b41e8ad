"""The report's interactive figures. User text is escaped: plotly reads tags in its labels."""
