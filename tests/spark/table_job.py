"""A session of its own over a catalog that rests on disk: runs SQL statements, prints the last one's rows as JSON.

python table_job.py FOLDER STATEMENT...
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession


def session(folder: Path) -> SparkSession:
    settings = {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'metastore'};create=true",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder}",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main() -> None:
    spark = session(Path(sys.argv[1]))
    rows = [spark.sql(statement).collect() for statement in sys.argv[2:]][-1]
    spark.stop()
    print(json.dumps([list(row) for row in rows]))


if __name__ == "__main__":
    main()
