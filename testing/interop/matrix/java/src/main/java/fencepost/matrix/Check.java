package fencepost.matrix;

/** Something is otherwise than it has to be. */
final class Check extends RuntimeException {
    private static final long serialVersionUID = 1;

    private Check(String message) {
        super(message);
    }

    static void that(boolean holds, Object found) {
        if (!holds) {
            throw new Check("found " + found);
        }
    }

    static void that(boolean holds, String message, Object... values) {
        if (!holds) {
            throw new Check(String.format(message, values));
        }
    }
}
