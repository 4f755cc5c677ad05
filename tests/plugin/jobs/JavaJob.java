import java.io.File;
import java.util.concurrent.TimeUnit;
import org.apache.spark.api.java.function.FilterFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.DataStreamReader;
import org.apache.spark.sql.streaming.StreamingQuery;

/**
 * Copies lines of files: IN OUT CHECKPOINT LIMIT SECONDS ENDING [HANG]. Knows nothing of Weir. Ends
 * sooner where there is a file "stop" beside CHECKPOINT. A batch waits while there is a file HANG.
 */
public class JavaJob {
  public static void main(String[] given) throws Exception {
    SparkSession spark = SparkSession.builder().getOrCreate();
    spark.sparkContext().setLogLevel("WARN");
    DataStreamReader reader = spark.readStream().format("text");
    if (!given[3].equals("none")) {
      reader = reader.option("maxFilesPerTrigger", given[3]);
    }
    Dataset<Row> lines = reader.load(given[0]);
    if (given.length > 6) {
      String hang = given[6];
      lines = lines.filter((FilterFunction<Row>) row -> {
        while (new File(hang).exists()) {
          Thread.sleep(50);
        }
        return true;
      });
    }
    StreamingQuery query = lines.writeStream().queryName("lines").format("text")
        .option("path", given[1]).option("checkpointLocation", given[2]).start();
    System.out.println("run " + query.runId());
    File stop = new File(new File(given[2]).getParentFile(), "stop");
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(Long.parseLong(given[4]));
    while (!stop.exists() && System.nanoTime() < end && !query.awaitTermination(50)) {
      // Until it is told to.
    }
    System.out.println("over");
    switch (given[5]) {
      case "exit 7": System.exit(7); break;
      case "throw": throw new IllegalStateException("mine");
      case "stop": query.stop(); spark.stop(); break;
      default: break;
    }
  }
}
