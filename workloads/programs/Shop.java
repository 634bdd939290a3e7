import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;

/**
 * A book shop on the web, all in memory: searches, lists, best sellers, baskets and orders, in about the shares
 * of TPC-W's shopping mix (Transaction Processing Performance Council, TPC-W 1.8, 2002).
 *
 * <p>{@code java Shop ADDRESS PORT}. The path of a request ends in the size of the page that it wants: it is
 * cut, or filled up, to it. What is asked for is drawn from a fixed seed.
 */
public final class Shop {
    private static final int BOOKS = 20_000;
    private static final int CUSTOMERS = 50_000;
    private static final int SUBJECTS = 24;
    private static final int KEPT_ORDERS = 3_333;

    private record Book(int number, String title, String author, int subject, int cents) {}

    private record Line(Book book, int copies) {}

    private record Order(Customer customer, List<Line> lines, int cents) {}

    private static final class Customer {
        final String name;
        final List<Line> basket = new ArrayList<>();

        Customer(String name) {
            this.name = name;
        }
    }

    private final List<List<Book>> bySubject = new ArrayList<>();
    private final Map<Integer, Book> books = new HashMap<>();
    private final Map<String, Customer> customers = new HashMap<>();
    private final Order[] orders = new Order[KEPT_ORDERS];
    private long ordered;
    private long state = 1;

    private Shop() {
        for (int i = 0; i < SUBJECTS; i++) bySubject.add(new ArrayList<>());
        for (int i = 0; i < BOOKS; i++) {
            Book book = new Book(i, "Title " + word() + ' ' + word(), word(), pick(SUBJECTS), 500 + pick(9500));
            books.put(i, book);
            bySubject.get(book.subject).add(book);
        }
        for (int i = 0; i < CUSTOMERS; i++) customers.put("c" + i, new Customer(word() + i));
    }

    private int pick(int below) {
        state = state * 6364136223846793005L + 1442695040888963407L;
        return (int) ((state >>> 33) % below);
    }

    private String word() {
        char[] letters = new char[4 + pick(8)];
        for (int i = 0; i < letters.length; i++) letters[i] = (char) ('a' + pick(26));
        return new String(letters);
    }

    /** What one request asks for, as text. */
    private String page(int size) {
        Customer customer = customers.get("c" + pick(CUSTOMERS));
        StringBuilder page = new StringBuilder(size + 256);
        page.append("<html><body><h1>").append(customer.name).append("</h1>");
        int kind = pick(100);
        if (kind < 17) {
            list(page, found(pick(SUBJECTS)), size);
        } else if (kind < 38) {
            list(page, bySubject.get(pick(SUBJECTS)).subList(0, 10), size);
        } else if (kind < 43) {
            list(page, bestSellers(), size);
        } else if (kind < 60) {
            list(page, List.of(books.get(pick(BOOKS))), size);
        } else if (kind < 80) {
            for (int i = 0; i < SUBJECTS; i++) page.append("<option>").append(i).append("</option>\n");
        } else if (kind < 96) {
            customer.basket.add(new Line(books.get(pick(BOOKS)), 1 + pick(3)));
            customer.basket.forEach(line -> entry(page, line.book, line.copies));
        } else {
            order(customer);
            page.append("<p>thank you</p>");
        }
        return page.toString();
    }

    private List<Book> found(int subject) {
        String begin = "Title " + (char) ('a' + pick(26));
        List<Book> found = new ArrayList<>();
        for (Book book : bySubject.get(subject)) if (book.title.startsWith(begin)) found.add(book);
        found.sort(Comparator.comparing(Book::title));
        return found;
    }

    private List<Book> bestSellers() {
        Map<Book, Integer> sold = new HashMap<>();
        for (Order order : orders) {
            if (order == null) break;
            for (Line line : order.lines) sold.merge(line.book, line.copies, Integer::sum);
        }
        return sold.entrySet().stream()
                .sorted(Map.Entry.<Book, Integer>comparingByValue().reversed())
                .limit(50)
                .map(Map.Entry::getKey)
                .toList();
    }

    private void order(Customer customer) {
        if (customer.basket.isEmpty()) customer.basket.add(new Line(books.get(pick(BOOKS)), 1));
        int cents = customer.basket.stream().mapToInt(line -> line.copies * line.book.cents).sum();
        orders[(int) (ordered++ % KEPT_ORDERS)] = new Order(customer, List.copyOf(customer.basket), cents);
        customer.basket.clear();
    }

    private static void list(StringBuilder page, List<Book> books, int size) {
        for (Book book : books) {
            if (page.length() >= size) break;
            entry(page, book, 1);
        }
    }

    private static void entry(StringBuilder page, Book book, int copies) {
        page.append("<p><b>").append(book.title).append("</b> by ").append(book.author).append(", ")
                .append(copies).append(" at ").append(book.cents / 100).append('.').append(book.cents % 100)
                .append(" <a href=\"/book/").append(book.number).append("\">more</a></p>\n");
    }

    private void answer(HttpExchange exchange) throws IOException {
        try (exchange) {
            String path = exchange.getRequestURI().getPath();
            int size = Integer.parseInt(path.substring(path.lastIndexOf('/') + 1));
            StringBuilder text = new StringBuilder(page(size));
            while (text.length() < size) text.append(' ');
            text.setLength(size);
            byte[] body = text.toString().getBytes(StandardCharsets.ISO_8859_1);
            exchange.getResponseHeaders().set("Content-Type", "text/html");
            exchange.sendResponseHeaders(200, body.length);
            try (OutputStream out = exchange.getResponseBody()) {
                out.write(body);
            }
        }
    }

    /** Serves until it is killed: one thread, so that equal requests come in equal order. */
    public static void main(String[] words) throws IOException {
        Shop shop = new Shop();
        for (int i = 0; i < KEPT_ORDERS; i++) shop.order(shop.customers.get("c" + shop.pick(CUSTOMERS)));
        InetSocketAddress address = new InetSocketAddress(words[0], Integer.parseInt(words[1]));
        HttpServer server = HttpServer.create(address, 64);
        server.createContext("/f/", shop::answer);
        server.setExecutor(Executors.newSingleThreadExecutor());
        server.start();
    }
}
