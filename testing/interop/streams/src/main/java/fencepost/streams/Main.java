package fencepost.streams;

import java.io.IOException;
import java.util.logging.ConsoleHandler;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.Logger;

/** The programs: {@code feed}, {@code watch}, {@code run}, {@code late-commit}. They say on stdout what happens, and are told on stdin what to do. */
public final class Main {
    private Main() {
    }

    /** Runs one program; its last line says what came of it, and the exit status is 1 when a guarantee was broken. */
    public static void main(String[] arguments) throws IOException {
        Options options = new Options(arguments, 1);
        log(Level.parse(options.text("log", "WARNING")));
        try {
            switch (arguments[0]) {
                case "feed" -> System.out.println(Feeder.run(options));
                case "watch" -> System.out.println(new Watcher(options).run());
                case "run" -> System.out.println(Application.run(options));
                case "late-commit" -> System.out.println(LateCommit.run(options));
                default -> throw new IllegalArgumentException("no program named " + arguments[0]);
            }
        } catch (Exception e) {
            System.out.println("FAIL " + arguments[0] + ": " + String.valueOf(e).replace('\n', ' '));
            System.exit(1);
        }
        System.exit(0);
    }

    /** What the client logs goes to stderr, with the time to the millisecond, so that it can be laid beside the broker's log. */
    private static void log(Level level) {
        System.setProperty("java.util.logging.SimpleFormatter.format", "%1$tT.%1$tL %4$s %3$s %5$s%6$s%n");
        Logger root = Logger.getLogger("");
        root.setLevel(level);
        for (Handler handler : root.getHandlers()) {
            root.removeHandler(handler);
        }
        ConsoleHandler console = new ConsoleHandler();
        console.setLevel(level);
        root.addHandler(console);
    }
}
