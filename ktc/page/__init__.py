"""Reports of runs: what is said (sections of blocks), and how it is written (HTML, Markdown, CSV, JSON).

:func:`ktc.page.run_report.report_of` makes a :class:`~.blocks.Page` of a run; :func:`ktc.page.document.html` and
:func:`ktc.page.plain_texts.markdown` write one.
"""
