package fencepost.interop;

import java.util.concurrent.ExecutionException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;

/** What an application that does as the documentation says comes to at the end of a transaction. */
final class Verdict {
    static final String COMMITTED = "committed";

    private Verdict() {
    }

    /** Steps of a transaction, the commit the last of them. */
    interface Steps {
        void take() throws Exception;
    }

    /** That it has committed, that it goes on with a new producer after a fence, or that it was ended by something else. */
    static String of(Steps steps) throws Exception {
        Exception why;
        try {
            steps.take();
            return COMMITTED;
        } catch (ExecutionException e) {
            why = (Exception) e.getCause();
        } catch (KafkaException e) {
            why = e;
        }
        // A send of a transaction that is over has these names.
        boolean isFenced = why instanceof ProducerFencedException || why instanceof InvalidProducerEpochException;
        return (isFenced ? "goes on after " : "ended by ") + why.getClass().getSimpleName();
    }
}
