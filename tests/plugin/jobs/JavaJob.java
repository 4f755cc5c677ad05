import java.util.concurrent.TimeUnit;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.DataStreamReader;
import org.apache.spark.sql.streaming.StreamingQuery;

/** Counts words of files: IN OUT CHECKPOINT LIMIT SECONDS ENDING. Knows nothing of Weir. */
public class JavaJob {
  public static void main(String[] given) throws Exception {
    SparkSession spark = SparkSession.builder().appName("java job").getOrCreate();
    spark.sparkContext().setLogLevel("WARN");
    DataStreamReader reader = spark.readStream().format("text");
    if (!given[3].equals("none")) {
      reader = reader.option("maxFilesPerTrigger", given[3]);
    }
    Dataset<Row> lines = reader.load(given[0]);
    StreamingQuery query = lines.writeStream().queryName("lines").format("text")
        .option("path", given[1]).option("checkpointLocation", given[2]).start();
    System.out.println("run " + query.runId());
    query.awaitTermination(TimeUnit.SECONDS.toMillis(Long.parseLong(given[4])));
    System.out.println("over");
    switch (given[5]) {
      case "exit 7": System.exit(7); break;
      case "throw": throw new IllegalStateException("mine");
      case "stop": query.stop(); spark.stop(); break;
      default: break;
    }
  }
}
