package fencepost.interop;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * A TCP proxy before one broker, for one client, that keeps one request back, and what comes after it on that connection, until it is let go. It
 * notes the error codes of the answers to all requests of that API. The broker's own address in its answers becomes the proxy's.
 */
final class HoldingProxy implements AutoCloseable {
    /** API keys. */
    static final short INIT_PRODUCER_ID = 22;
    static final short END_TXN = 26;

    private final String host;
    private final int port;
    private final short apiKey;
    private final ServerSocket listener;
    private final List<Short> answers = new ArrayList<>();
    private final CountDownLatch held = new CountDownLatch(1);
    private final CountDownLatch letGo = new CountDownLatch(1);
    private final CountDownLatch passed = new CountDownLatch(1);
    private int passing;

    /** Keeps the request of {@code apiKey} back that comes after {@code passing} others of it. */
    HoldingProxy(String bootstrap, short apiKey, int passing) throws IOException {
        int colon = bootstrap.lastIndexOf(':');
        host = bootstrap.substring(0, colon);
        port = Integer.parseInt(bootstrap.substring(colon + 1));
        this.apiKey = apiKey;
        this.passing = passing;
        listener = new ServerSocket(0, 50, InetAddress.getByName(host));
        start(this::accept);
    }

    String address() {
        return host + ":" + listener.getLocalPort();
    }

    /** Waits until the request has come. */
    void awaitHeld() throws InterruptedException {
        if (!held.await(Clients.PATIENCE.toMillis(), TimeUnit.MILLISECONDS)) {
            throw new Failure("no request of API " + apiKey + " to keep back");
        }
    }

    void letGo() {
        letGo.countDown();
    }

    /** Waits until the request that was let go is on its way to the broker. */
    void awaitPassed() throws InterruptedException {
        passed.await();
    }

    /** Waits for the first answer of the API; its error code. */
    short firstAnswer() throws InterruptedException {
        synchronized (answers) {
            long deadline = System.nanoTime() + Clients.PATIENCE.toNanos();
            while (answers.isEmpty()) {
                if (System.nanoTime() > deadline) {
                    throw new Failure("no answer to API " + apiKey);
                }
                answers.wait(100);
            }
            return answers.get(0);
        }
    }

    @Override
    public void close() throws IOException {
        letGo();
        listener.close();
    }

    private static void start(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() {
        while (!listener.isClosed()) {
            try {
                Socket client = listener.accept();
                start(() -> serve(client));
            } catch (IOException e) {
                return;
            }
        }
    }

    /** One connection. Either side's end is that of the other, a broker that is not there included. */
    private void serve(Socket client) {
        Set<Integer> asked = ConcurrentHashMap.newKeySet();
        try (client; Socket broker = new Socket(host, port)) {
            client.setTcpNoDelay(true);
            broker.setTcpNoDelay(true);
            start(() -> answer(broker, client, asked));
            DataInputStream in = new DataInputStream(client.getInputStream());
            DataOutputStream out = new DataOutputStream(broker.getOutputStream());
            while (true) {
                ByteBuffer frame = read(in);
                if (frame.getShort(0) == apiKey) {
                    asked.add(frame.getInt(4));
                    keep();
                }
                write(out, frame);
                if (held.getCount() == 0) {
                    passed.countDown();
                }
            }
        } catch (IOException | InterruptedException e) {
            // The end of the connection.
        }
    }

    private void keep() throws InterruptedException {
        synchronized (this) {
            if (passing > 0) {
                passing--;
                return;
            }
        }
        held.countDown();
        letGo.await();
    }

    private void answer(Socket broker, Socket client, Set<Integer> asked) {
        try (broker; client) {
            DataInputStream in = new DataInputStream(broker.getInputStream());
            DataOutputStream out = new DataOutputStream(client.getOutputStream());
            while (true) {
                ByteBuffer frame = read(in);
                if (asked.remove(frame.getInt(0))) {
                    synchronized (answers) {
                        // Correlation id, no tags, throttle time: both APIs begin like this in their flexible versions.
                        answers.add(frame.getShort(9));
                        answers.notifyAll();
                    }
                }
                rename(frame);
                write(out, frame);
            }
        } catch (IOException e) {
            // The end of the connection.
        }
    }

    private void rename(ByteBuffer frame) {
        byte[] name = host.getBytes(StandardCharsets.US_ASCII);
        byte[] theirs = ByteBuffer.allocate(name.length + 4).put(name).putInt(port).array();
        byte[] bytes = frame.array();
        for (int at = 0; at + theirs.length <= bytes.length; at++) {
            if (bytes[at] == theirs[0] && ByteBuffer.wrap(bytes, at, theirs.length).equals(ByteBuffer.wrap(theirs))) {
                frame.putInt(at + name.length, listener.getLocalPort());
            }
        }
    }

    private static ByteBuffer read(DataInputStream in) throws IOException {
        byte[] frame = new byte[in.readInt()];
        in.readFully(frame);
        return ByteBuffer.wrap(frame);
    }

    private static void write(DataOutputStream out, ByteBuffer frame) throws IOException {
        byte[] whole = ByteBuffer.allocate(4 + frame.capacity()).putInt(frame.capacity()).put(frame.array()).array();
        out.write(whole);
        out.flush();
    }
}
