package fencepost.interop;

/** The programs: {@code pipeline}, {@code fill}, {@code work}, {@code verify}, {@code transactions}, {@code late-commit}, {@code held-commit}, {@code replaced}, {@code turns}, {@code bounce}. */
public final class Main {
    private Main() {
    }

    /** Runs one program; its last line says what came of it, and the exit status is 1 when a guarantee was broken. */
    public static void main(String[] arguments) {
        long began = System.nanoTime();
        Options options = new Options(arguments, 1);
        Wire.silence();
        try {
            switch (arguments[0]) {
                case "pipeline" -> System.out.printf("OK java %s in %.1f s%n", Pipeline.run(options), (System.nanoTime() - began) / 1e9);
                case "fill" -> System.out.println(Crash.fill(options));
                case "work" -> System.out.println(Crash.work(options));
                case "verify" -> System.out.println(Crash.verify(options));
                case "transactions" -> System.out.println(Transactions.run(options));
                case "late-commit" -> System.out.println(LateCommit.run(options));
                case "held-commit" -> System.out.println(HeldCommit.run(options));
                case "replaced" -> System.out.println(Replaced.run(options));
                case "turns" -> System.out.println(Turns.run(options));
                case "bounce" -> System.out.println(Bounce.run(options));
                default -> throw new IllegalArgumentException("no program named " + arguments[0]);
            }
        } catch (Exception e) {
            System.out.println("FAIL java " + arguments[0] + ": " + e);
            System.exit(1);
        }
        System.exit(0);
    }
}
