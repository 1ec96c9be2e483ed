import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import org.apache.kafka.tools.consumer.group.ConsumerGroupCommand;

/**
 * Kafka's consumer-groups tool, many commands in one process: each line of the input is a command's arguments. What it prints
 * comes after a line of "$ " and the command.
 */
public final class GroupsTool {
    public static void main(String[] arguments) throws Exception {
        System.setErr(System.out);
        PrintStream out = System.out;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String command = commands.readLine(); command != null; command = commands.readLine()) {
            out.println("$ " + command);
            ConsumerGroupCommand.main(("--bootstrap-server " + arguments[0] + " " + command).split(" "));
            out.flush();
        }
    }
}
