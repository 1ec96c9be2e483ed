package fencepost.interop;

import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** How a committed view differs from the input. */
record Comparison(int records, int lost, int twice, boolean inOrder) {
    static Comparison of(List<List<String>> wanted, List<List<String>> seen) {
        List<String> flat = seen.stream().flatMap(List::stream).toList();
        Set<String> distinct = new HashSet<>(flat);
        Set<String> missing = new HashSet<>(wanted.stream().flatMap(List::stream).toList());
        missing.removeAll(distinct);
        return new Comparison(flat.size(), missing.size(), flat.size() - distinct.size(), seen.equals(wanted));
    }

    void require() {
        if (lost > 0 || twice > 0 || !inOrder) {
            throw new Failure(toString());
        }
    }

    @Override
    public String toString() {
        return records + " records, " + lost + " lost, " + twice + " twice, order " + (inOrder ? "right" : "wrong");
    }
}
