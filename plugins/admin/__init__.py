"""The REST API and, later, the page. The plugin itself is ``admin.py``, so that the parts can be used without NoneBot."""
