import org.apache.spark.sql.SparkSession

/** Two sessions with a query each: IN OUT CHECKPOINT LIMIT SECONDS. Knows nothing of Weir. */
object ScalaJob {
  def main(given: Array[String]): Unit = {
    val spark = SparkSession.builder().appName("scala job").getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    val queries = for ((session, name) <- Seq(spark -> "first", spark.newSession() -> "second")) yield {
      session.readStream.format("text").option("maxFilesPerTrigger", given(3)).load(given(0))
        .writeStream.queryName(name).format("text")
        .option("path", given(1) + "/" + name).option("checkpointLocation", given(2) + "/" + name).start()
    }
    queries.head.awaitTermination(given(4).toLong * 1000)
    queries.foreach(_.stop())
    spark.stop()
    println("over")
  }
}
