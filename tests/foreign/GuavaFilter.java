/*
 * A command-line program that uses Guava's BloomFilter, for interop.py.
 *
 *     GuavaFilter make STRATEGY FUNNEL ITEMS RATE FILE < keys
 *     GuavaFilter ask FUNNEL FILE < keys                    prints how many it may contain
 *
 * STRATEGY is 0 (MITZ_32) or 1 (MITZ_64); FUNNEL is bytes, utf16, int32 or int64. Keys are lines of
 * hexadecimal digits; integers are little-endian.
 */
import com.google.common.hash.BloomFilter;
import com.google.common.hash.Funnel;
import com.google.common.hash.Funnels;
import com.google.common.io.BaseEncoding;
import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.function.Predicate;

public class GuavaFilter {
    private static Funnel<?> funnel(String name) {
        switch (name) {
            case "utf16": return Funnels.unencodedCharsFunnel();
            case "int32": return Funnels.integerFunnel();
            case "int64": return Funnels.longFunnel();
            default: return Funnels.byteArrayFunnel();
        }
    }

    private static Object key(String funnel, String line) {
        byte[] bytes = BaseEncoding.base16().lowerCase().decode(line);
        ByteBuffer numbers = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        switch (funnel) {
            case "utf16": return new String(bytes, StandardCharsets.UTF_16LE);
            case "int32": return numbers.getInt();
            case "int64": return numbers.getLong();
            default: return bytes;
        }
    }

    /* Reads keys from standard input and returns the number of keys for which `test` is true. */
    private static int count(String funnel, Predicate<Object> test) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        int n = 0;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            n += test.test(key(funnel, line)) ? 1 : 0;
        }
        return n;
    }

    /* Only a non-public method can select the strategy. */
    @SuppressWarnings("unchecked")
    private static BloomFilter<Object> create(String[] args) throws Exception {
        Class<?> strategy = Class.forName("com.google.common.hash.BloomFilter$Strategy");
        Class<?> strategies = Class.forName("com.google.common.hash.BloomFilterStrategies");
        Method create = BloomFilter.class.getDeclaredMethod(
            "create", Funnel.class, long.class, double.class, strategy);
        create.setAccessible(true);
        return (BloomFilter<Object>) create.invoke(
            null, funnel(args[2]), Long.parseLong(args[3]), Double.parseDouble(args[4]),
            strategies.getEnumConstants()[Integer.parseInt(args[1])]);
    }

    @SuppressWarnings("unchecked")
    public static void main(String[] args) throws Exception {
        if (args[0].equals("make")) {
            BloomFilter<Object> filter = create(args);
            count(args[2], filter::put);
            try (OutputStream out = new FileOutputStream(args[5])) {
                filter.writeTo(out);
            }
            return;
        }
        try (InputStream in = new FileInputStream(args[2])) {
            Funnel<Object> funnel = (Funnel<Object>) funnel(args[1]);
            System.out.println(count(args[1], BloomFilter.readFrom(in, funnel)::mightContain));
        }
    }
}
