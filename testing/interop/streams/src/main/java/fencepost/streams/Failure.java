package fencepost.streams;

/** A guarantee was broken, or a step did not end in time. */
final class Failure extends RuntimeException {
    private static final long serialVersionUID = 1;

    Failure(String message) {
        super(message);
    }
}
