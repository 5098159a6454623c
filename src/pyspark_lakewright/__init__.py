"""What PySpark finds by itself: it registers `DefaultSource` of each module named `pyspark_…`."""

from lakewright.storage.data_source import LakewrightSource as DefaultSource

__all__ = ["DefaultSource"]
