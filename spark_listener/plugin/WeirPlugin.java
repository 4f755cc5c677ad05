package weir;

import java.io.FilterInputStream;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.management.ManagementFactory;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import javax.net.ServerSocketFactory;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerApplicationStart;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import py4j.CallbackClient;
import py4j.DefaultGatewayServerListener;
import py4j.GatewayServer;
import py4j.Py4JServerConnection;

/**
 * A door for Weir's agent into a Spark driver: {@code spark.extraListeners=weir.WeirPlugin}, which
 * executors never load, or {@code spark.plugins=weir.WeirPlugin}, which they load and do nothing
 * with.
 *
 * <p>It opens py4j on loopback for whoever can read the door file, which is its owner's alone, and
 * does nothing else. One process at a time may come in. When that one is gone, however it went, the
 * door closes behind it: what it left to be undone is done, what it held is let go, and a new door
 * with another token opens for the next. Nothing here is ever thrown into the job, all threads are
 * daemons, and the job waits for none of them.
 */
public final class WeirPlugin extends SparkListener
    implements SparkPlugin, DriverPlugin, Runnable {
  /**
   * A process that has not said for so long that it is there is taken to be stuck. Counted is what
   * the door itself lives through: while all of this JVM stands still, nobody can be heard.
   */
  static final long SILENT_MILLISECONDS = 10_000;
  /** How long one that is asked to leave gets to leave by itself. */
  static final long LEAVING_MILLISECONDS = 2_000;
  private static final long TICK_MILLISECONDS = 100;
  /**
   * How often it is looked whether the door's file is there. What cleans temporary directories takes
   * away what is some days old, and an agent that starts after that would never come in. It waits no
   * longer for the door of a driver than for that of one whose process hangs, and this is one look in
   * a hundred ticks.
   */
  private static final long LOOK_MILLISECONDS = 10_000;
  /** What py4j is sent first: a line A, and one of the secret's 64 digits. */
  private static final int FIRST_BYTES = 67;
  /** How long after a door that could not be opened the next is tried; each time twice as long. */
  private static final long FIRST_PAUSE_MILLISECONDS = 1_000;
  private static final long LONGEST_PAUSE_MILLISECONDS = 30_000;
  private static final String CLOSED = "weir: the door is closed, and the job goes on without it: {}";
  private static final String SHUT =
      "weir: the door is closed, and the job goes on without it until it can be opened: {}";
  private static final String DOOR = "weir: a door for the agent: {}";
  private static final String OPENED = "weir: the door is open";
  private static final String GONE =
      "weir: the agent's process is gone: limits that the job configured are back, where it set none"
          + " the last one stays unless it could make rows fall late, and the job goes on";
  private static final String REMOVED =
      "weir: the door's file was removed and cannot be written anew, so no agent finds this driver"
          + " until it can: {}";
  private static final String BACK = "weir: the agent's process is back";
  private static final Logger LOG = LoggerFactory.getLogger("weir");
  private static final String PROCESS = ManagementFactory.getRuntimeMXBean().getName(); // pid@host
  private static volatile WeirPlugin present;

  private final Map<String, Runnable> undo = new ConcurrentHashMap<>();
  private final Map<String, Runnable> whole = new ConcurrentHashMap<>();
  private final Map<String, Object> kept = new ConcurrentHashMap<>();
  private final Set<Py4JServerConnection> connections = ConcurrentHashMap.newKeySet();
  private volatile String state = "open"; // aside: another watches; ended: Spark does
  private volatile boolean entered; // somebody has come in
  private volatile long silentMilliseconds;
  private volatile boolean missed; // the process that was in is gone, and none came after it
  private volatile GatewayServer server;
  private volatile Path file;
  private String text; // what stands in it
  private Path told; // where it was last said to be
  private boolean removed; // it is gone, and that it cannot be written anew was said
  private Path directory;
  private boolean configured;
  private String application;
  private Thread thread;

  @Override
  public DriverPlugin driverPlugin() {
    return this;
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return null;
  }

  @Override
  public Map<String, String> init(SparkContext context, PluginContext pluginContext) {
    return Collections.emptyMap(); // the application has no id yet
  }

  @Override
  public void registerMetrics(String applicationId, PluginContext pluginContext) {
    begin(applicationId);
  }

  @Override
  public void onApplicationStart(SparkListenerApplicationStart event) {
    begin(event.appId().isDefined() ? event.appId().get() : "unknown");
  }

  @Override
  public void onApplicationEnd(SparkListenerApplicationEnd event) {
    shutdown();
  }

  private void begin(String applicationId) {
    try {
      synchronized (WeirPlugin.class) { // a driver that names it twice has one door
        if (present != null && !present.state.equals("ended")) {
          return;
        }
        present = this;
      }
      application = applicationId;
      SparkConf conf = SparkEnv.get().conf();
      String named = conf.get("spark.weir.door.dir", "");
      configured = !named.isEmpty();
      directory = configured ? Paths.get(named) : Paths.get(
          System.getProperty("java.io.tmpdir"), "weir-" + System.getProperty("user.name"));
      thread = new Thread(this, "weir-door");
      thread.setDaemon(true); // and so are py4j's, which it makes
      thread.start();
    } catch (Throwable failure) {
      LOG.warn(CLOSED, failure.toString());
    }
  }

  /** Nobody waits for it: who is in hears it, tells how the last queries ended, and leaves. */
  @Override
  public void shutdown() {
    synchronized (this) { // nobody comes in from here on
      state = "ended";
      if (entered) {
        takeFileAway();
        return;
      }
    }
    close();
  }

  @Override
  public void run() {
    try {
      while (opened()) {
        for (long left = LOOK_MILLISECONDS; state.equals("open") && !gone();
            left -= TICK_MILLISECONDS) {
          tick();
          if (left <= TICK_MILLISECONDS) {
            left += LOOK_MILLISECONDS;
            keepFile();
          }
        }
        for (long left = LEAVING_MILLISECONDS; !state.equals("open") && !gone() && left > 0;
            left -= TICK_MILLISECONDS) {
          tick();
        }
        missed = entered && state.equals("open");
        close();
        if (!state.equals("ended")) {
          undo.values().forEach(WeirPlugin::quietly);
        }
        undo.clear();
        if (missed) {
          LOG.warn(GONE);
        }
      }
      if (state.equals("aside")) {
        write("aside\n", free());
      }
    } catch (Throwable failure) {
      close();
      LOG.warn(CLOSED, failure.toString());
    }
  }

  /**
   * Opens the next door, however long that takes: a disk may be full, a directory gone. What the
   * last process left for the next one to take over is undone meanwhile, as none can come. False
   * where no door is wanted any more.
   */
  private boolean opened() throws InterruptedException {
    for (long pause = 0; state.equals("open");
        pause = Math.min(Math.max(2 * pause, FIRST_PAUSE_MILLISECONDS), LONGEST_PAUSE_MILLISECONDS)) {
      for (long left = pause; left > 0 && state.equals("open"); left -= TICK_MILLISECONDS) {
        Thread.sleep(TICK_MILLISECONDS);
      }
      if (!state.equals("open")) {
        break;
      }
      try {
        open();
        if (pause > 0) {
          LOG.warn(OPENED);
        }
        return true;
      } catch (Throwable failure) {
        close();
        if (pause == 0) {
          LOG.warn(SHUT, failure.toString());
        }
        whole.values().forEach(WeirPlugin::quietly);
        whole.clear();
      }
    }
    return false;
  }

  private void tick() throws InterruptedException {
    Thread.sleep(TICK_MILLISECONDS);
    silentMilliseconds += TICK_MILLISECONDS; // an "I am there" that this overwrites comes again
  }

  private boolean gone() {
    return entered ? connections.isEmpty() || silentMilliseconds > SILENT_MILLISECONDS
        : !state.equals("open");
  }

  private void open() throws Exception {
    byte[] secret = new byte[32];
    new SecureRandom().nextBytes(secret);
    String token = String.format("%064x", new BigInteger(1, secret));
    entered = false;
    connections.clear();
    // The agent knocks there, whatever this JVM takes for loopback: ::1 where it prefers IPv6.
    InetAddress here = InetAddress.getByAddress(new byte[] {127, 0, 0, 1});
    // Nothing calls back. py4j's own client for that has a thread that would keep the job's JVM alive.
    CallbackClient nobody = new CallbackClient(0, here, 0, TimeUnit.SECONDS);
    GatewayServer opened = new GatewayServer.GatewayServerBuilder(this).callbackClient(nobody)
        .javaPort(0).javaAddress(here).authToken(token).serverSocketFactory(new Guarded()).build();
    opened.addListener(new DefaultGatewayServerListener() {
      @Override
      public void connectionStarted(Py4JServerConnection connection) {
        connections.add(connection);
      }

      @Override
      public void connectionStopped(Py4JServerConnection connection) {
        connections.remove(connection);
      }
    });
    opened.start(true);
    server = opened;
    text = "port " + opened.getListeningPort() + "\ntoken " + token + "\napplication " + application
        + "\nprocess " + PROCESS + "\n";
    Path target = free();
    write(text, target);
    if (!target.equals(told)) {
      told = target;
      LOG.info(DOOR, target);
    }
    if (state.equals("ended")) { // meanwhile, and it had not seen all of this
      shutdown();
    }
  }

  /** Where the next file may be: another driver's stays as it is. */
  private Path free() {
    Path target = directory.resolve(application + ".door");
    if (Files.exists(target)) { // of a driver that was killed, or one of the same moment
      target = directory.resolve(application + "-" + PROCESS.split("@")[0] + ".door");
    }
    return target;
  }

  /** The file is whole from the moment that it has its name, and only its owner's. */
  private void write(String text, Path target) throws Exception {
    Set<PosixFilePermission> mine = PosixFilePermissions.fromString("rwx------");
    if (!configured || !Files.isDirectory(directory)) { // older Java fails at a link to one: JDK-8294193
      Files.createDirectories(directory, PosixFilePermissions.asFileAttribute(mine)); // if it is missing
    }
    if (!configured) {
      refuseOthers();
    }
    Path partial = Files.createTempFile(directory, ".weir-", ".new"); // rw-------
    try {
      Files.write(partial, ("weir door 1\n" + text).getBytes("UTF-8"));
      file = Files.move(partial, target, StandardCopyOption.ATOMIC_MOVE);
    } finally {
      Files.deleteIfExists(partial); // of a disk that is full
    }
  }

  /** Writes the file of the door that is open anew where somebody removed it. */
  private void keepFile() {
    Path known = file;
    if (known == null || !Files.notExists(known, LinkOption.NOFOLLOW_LINKS)) {
      return;
    }
    try {
      write(text, known);
      removed = false;
      if (!state.equals("open")) { // meanwhile, and whoever said so had no file to take away
        takeFileAway();
      }
    } catch (Throwable failure) {
      if (!removed) {
        LOG.warn(REMOVED, failure.toString());
      }
      removed = true;
    }
  }

  /** Where nothing is configured another user may have been first. Nothing is written there then. */
  private void refuseOthers() throws IOException {
    Path mine = Files.createTempFile(directory.toAbsolutePath().getParent(), ".weir-", ".new");
    try {
      PosixFileAttributes found =
          Files.readAttributes(directory, PosixFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
      Set<PosixFilePermission> may = found.permissions();
      if (!found.isDirectory() || !found.owner().equals(Files.getOwner(mine))
          || may.contains(PosixFilePermission.GROUP_WRITE)
          || may.contains(PosixFilePermission.OTHERS_WRITE)) {
        throw new IllegalStateException(
            directory + " is no directory that only this user writes to; set spark.weir.door.dir");
      }
    } finally {
      Files.deleteIfExists(mine);
    }
  }

  private synchronized void takeFileAway() {
    quietly(() -> { if (file != null) file.toFile().delete(); });
    file = null;
  }

  private synchronized void close() {
    takeFileAway();
    quietly(() -> { if (server != null) server.shutdown(); });
    server = null;
  }

  private static void quietly(Runnable task) {
    try {
      task.run();
    } catch (Throwable failure) {
      LOG.debug("weir: at a door", failure);
    }
  }

  /**
   * py4j itself would wait for a secret for ever, keep a line of any length that is none, and take
   * no connection any more once it could not take one.
   */
  private static final class Guarded extends ServerSocketFactory {
    @Override
    public ServerSocket createServerSocket() throws IOException {
      return new ServerSocket() {
        @Override
        public Socket accept() throws IOException {
          while (true) {
            Socket caller = new Caller();
            try {
              implAccept(caller);
              return caller;
            } catch (IOException failure) { // too many files are open: for py4j the end of the door
              if (isClosed()) {
                throw failure;
              }
              LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(TICK_MILLISECONDS));
            }
          }
        }
      };
    }

    @Override
    public ServerSocket createServerSocket(int port) {
      throw new UnsupportedOperationException();
    }

    @Override
    public ServerSocket createServerSocket(int port, int backlog) {
      throw new UnsupportedOperationException();
    }

    @Override
    public ServerSocket createServerSocket(int port, int backlog, InetAddress address) {
      throw new UnsupportedOperationException();
    }
  }

  /** A connection that ends by itself where no secret comes, in time and in its length. */
  private static final class Caller extends Socket {
    private int left = FIRST_BYTES;
    private volatile boolean answered; // to the secret: to anything else the answer is the last

    @Override
    public InputStream getInputStream() throws IOException {
      return new FilterInputStream(super.getInputStream()) {
        // Now somebody is there: the socket itself is made as the wait for one begins.
        private final long until = System.nanoTime() + SILENT_MILLISECONDS * 1_000_000;

        @Override
        public int read(byte[] bytes, int from, int length) throws IOException {
          if (answered) {
            return in.read(bytes, from, length);
          }
          long milliseconds = (until - System.nanoTime()) / 1_000_000;
          if (left == 0 || milliseconds <= 0) {
            return -1;
          }
          setSoTimeout((int) milliseconds);
          try {
            int read = in.read(bytes, from, Math.min(length, left));
            left -= Math.max(read, 0);
            return read;
          } catch (SocketTimeoutException late) {
            return -1;
          }
        }
      };
    }

    @Override
    public OutputStream getOutputStream() throws IOException {
      return new FilterOutputStream(super.getOutputStream()) {
        @Override
        public void write(byte[] bytes, int from, int length) throws IOException {
          if (!answered) {
            answered = true;
            setSoTimeout(0);
          }
          out.write(bytes, from, length);
        }
      };
    }
  }

  // -- for the process beyond the door ------------------------------------------------------------

  /** Comes in; false where another process is in, or Spark ends. */
  public synchronized boolean enter() {
    if (entered || state.equals("ended")) {
      return false;
    }
    silentMilliseconds = 0;
    entered = true;
    if (missed) {
      missed = false;
      LOG.warn(BACK);
    }
    return true;
  }

  /** Says that the process is there; "open", or why it has to leave: "aside", "ended". */
  public String stay() {
    silentMilliseconds = 0;
    return state;
  }

  /** What is run when the process is gone, by name. */
  public Map<String, Runnable> undo() {
    return undo;
  }

  /** What is run where no process comes that takes over what the last one left, by name. */
  public Map<String, Runnable> whole() {
    return whole;
  }

  /** What the next process finds, by name. */
  public Map<String, Object> kept() {
    return kept;
  }

  /** For a driver that attaches by itself: what the last process left for the next one to find. */
  public static Map<String, Object> left() {
    WeirPlugin door = present;
    return door == null ? new ConcurrentHashMap<>() : door.kept;
  }

  /** For a driver that attaches by itself: the names of what stays until somebody undoes it. */
  public static List<String> staying() {
    WeirPlugin door = present;
    return door == null ? new ArrayList<>() : new ArrayList<>(door.whole.keySet());
  }

  /** For a driver that attaches by itself: nobody takes over what has this name, so it is undone. */
  public static void putBack(String name) {
    WeirPlugin door = present;
    Runnable left = door == null ? null : door.whole.remove(name);
    if (left != null) {
      quietly(left);
    }
  }

  /** For a driver that attaches by itself: what has this name is its own from now on. */
  public static void letGo(String name) {
    WeirPlugin door = present;
    if (door != null) {
      door.whole.remove(name);
    }
  }

  /** For a driver that attaches by itself: closes the door for good; true where there was one. */
  public static boolean standAside() throws InterruptedException {
    WeirPlugin door = present;
    if (door == null || !door.state.equals("open")) {
      return false;
    }
    door.state = "aside";
    door.thread.join(LEAVING_MILLISECONDS + 10 * TICK_MILLISECONDS);
    return true;
  }
}
