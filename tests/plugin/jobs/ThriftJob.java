import java.util.concurrent.TimeUnit;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.hive.thriftserver.HiveThriftServer2;
import org.apache.spark.sql.streaming.StreamingQuery;

/**
 * Copies lines of files, and lets JDBC clients in beside it: IN OUT CHECKPOINT LIMIT SECONDS ENDING.
 * Knows nothing of Weir.
 */
public class ThriftJob {
  public static void main(String[] given) throws Exception {
    SparkSession spark = SparkSession.builder().enableHiveSupport().getOrCreate();
    spark.sparkContext().setLogLevel("WARN");
    HiveThriftServer2.startWithContext(spark.sqlContext());
    StreamingQuery query = spark.readStream().format("text").option("maxFilesPerTrigger", given[3])
        .load(given[0]).writeStream().queryName("lines").format("text")
        .option("path", given[1]).option("checkpointLocation", given[2]).start();
    System.out.println("serving");
    query.awaitTermination(TimeUnit.SECONDS.toMillis(Long.parseLong(given[4])));
    query.stop();
    spark.stop();
  }
}
