package fencepost.streams;

import java.util.HashMap;
import java.util.Map;

/** Command-line options of the form {@code --name value}. */
final class Options {
    private final Map<String, String> values = new HashMap<>();

    Options(String[] arguments, int from) {
        for (int i = from; i + 1 < arguments.length; i += 2) {
            values.put(arguments[i].substring(2), arguments[i + 1]);
        }
    }

    String text(String name) {
        String value = values.get(name);
        if (value == null) {
            throw new IllegalArgumentException("--" + name + " is missing");
        }
        return value;
    }

    String text(String name, String otherwise) {
        return values.getOrDefault(name, otherwise);
    }

    long number(String name) {
        return Long.parseLong(text(name));
    }
}
