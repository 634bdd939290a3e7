//! Lists of flows: where a line has what.
//!
//! | list | line |
//! |---|---|
//! | htsim, Opera | `source destination bytes begin_ns` |
//! | ns-3 (HPCC) | their number, then lines `source destination class port bytes begin_s` |
//! | a table | columns by the names of its header: `src,dst,bytes,start_us` |

/// Places of a flow's values in a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Layout {
    /// Delimiter; none for blanks.
    pub(super) delimiter: Option<char>,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) bytes: usize,
    pub(super) begin: usize,
    /// Nanoseconds of a begin's unit.
    pub(super) unit_ns: f64,
    /// Words of a line.
    pub(super) words: usize,
    /// Lines before the first flow.
    head: usize,
}

const PLAIN: Layout =
    Layout { delimiter: None, from: 0, to: 1, bytes: 2, begin: 3, unit_ns: 1.0, words: 4, head: 0 };

/// Lines that say something, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    // A comment may stand behind a flow, too.
    let said = |line: &'_ str| line.split_once('#').map_or(line.len(), |(said, _)| said.len());
    let numbered = text.lines().enumerate().map(move |(n, line)| (n + 1, &line[..said(line)]));
    numbered.filter(|(_, line)| !line.trim().is_empty())
}

impl Layout {
    /// Finds the layout by the first lines.
    pub(super) fn of(text: &str) -> Layout {
        let mut lines = lines(text).map(|(_, line)| line.trim());
        let (Some(first), second) = (lines.next(), lines.next()) else { return PLAIN };
        let is_number = first.parse::<u32>().is_ok();
        if is_number && second.is_some_and(|line| line.split_whitespace().count() == 6) {
            return Layout { bytes: 4, begin: 5, unit_ns: 1e9, words: 6, head: 1, ..PLAIN };
        }
        // Numbers between commas in the order of the plain list.
        let is_number = |word: &str| word.trim().parse::<f64>().is_ok();
        if first.split(',').count() == PLAIN.words && first.split(',').all(is_number) {
            return Layout { delimiter: Some(','), ..PLAIN };
        }
        table(first).unwrap_or(PLAIN)
    }

    /// Number of flows that the first line announces, where the list has such a line.
    pub(super) fn announced(self, text: &str) -> Option<usize> {
        let (_, first) =
            lines(text).next().filter(|_| self.delimiter.is_none() && self.head == 1)?;
        first.trim().parse().ok()
    }

    /// Line of a header whose columns are not known.
    pub(super) fn unknown_header(self, text: &str) -> Option<usize> {
        let (number, first) = lines(text).next().filter(|_| self == PLAIN)?;
        let is_header = first.contains(',') && first.starts_with(|it: char| it.is_alphabetic());
        is_header.then_some(number)
    }

    /// A command that numbers the servers of a list whose ends are addresses, in the order in which
    /// they come.
    pub(super) fn numbered(self) -> String {
        let delimiter = match self.delimiter {
            None => String::new(),
            Some('\t') => " -F'\\t'".to_owned(),
            Some(delimiter) => format!(" -F'{delimiter}'"),
        };
        let Layout { from, to, bytes, begin, unit_ns, head, .. } = self;
        let [from, to, bytes, begin] = [from, to, bytes, begin].map(|place| place + 1);
        format!(
            "awk{delimiter} 'function n(a){{gsub(/[ \"]/,\"\",a);if(!(a in s))s[a]=c++;\
             return s[a]+0}}NR>{head}&&!/^#/&&NF{{printf \"%d %d %s \
             %.0f\\n\",n(${from}),n(${to}),${bytes},${begin}*{unit_ns}}}'"
        )
    }

    /// The words of flows, with the numbers of their lines.
    pub(super) fn rows(self, text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
        lines(text).skip(self.head).map(move |(number, line)| {
            let words = match self.delimiter {
                Some(delimiter) => {
                    line.split(delimiter).map(|it| it.trim().trim_matches('"')).collect()
                }
                None => line.split_whitespace().collect(),
            };
            (number, words)
        })
    }
}

/// The layout of a table's header; none if it is none.
fn table(header: &str) -> Option<Layout> {
    if !header.starts_with(|first: char| first.is_ascii_alphabetic() || first == '"') {
        return None;
    }
    let delimiter = [',', ';', '\t'].into_iter().find(|it| header.contains(*it));
    let words: Vec<String> = match delimiter {
        Some(delimiter) => header.split(delimiter).map(str::to_owned).collect(),
        None => header.split_whitespace().map(str::to_owned).collect(),
    };
    let names: Vec<String> =
        words.iter().map(|word| word.trim().trim_matches('"').to_ascii_lowercase()).collect();
    let find = |wanted: &[&str]| {
        wanted.iter().find_map(|name| names.iter().position(|found| found == name))
    };
    let from = find(&["src", "source", "from", "src_id", "sender", "src_node"])?;
    let to = find(&["dst", "destination", "to", "dst_id", "receiver", "dest", "dst_node"])?;
    let bytes = find(&["bytes", "size", "size_bytes", "flow_size", "flow_size_bytes", "length"])?;
    let begins = [
        (&["start_ns", "begin_ns", "time_ns", "arrival_ns", "start_time_ns"], 1.0),
        (&["start_us", "begin_us", "time_us", "arrival_us", "start_time_us"], 1e3),
        (&["start_ms", "begin_ms", "time_ms", "arrival_ms", "start_time_ms"], 1e6),
        (&["start_s", "begin_s", "time_s", "arrival_s", "start_time_s"], 1e9),
    ];
    let (begin, unit_ns) =
        begins.iter().find_map(|(names, ns)| Some((find(names.as_slice())?, *ns)))?;
    Some(Layout { delimiter, from, to, bytes, begin, unit_ns, words: names.len(), head: 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_known_by_their_first_lines() {
        assert_eq!(Layout::of("0 1 5 0\n"), PLAIN);
        assert_eq!(Layout::of("# nothing\n"), PLAIN);
        let hpcc = Layout::of("2\n0 1 3 100 200000 2.0\n1 2 3 100 200000 2.1\n");
        assert_eq!((hpcc.bytes, hpcc.begin, hpcc.unit_ns), (4, 5, 1e9));
        let table = Layout::of("id,src,dst,bytes,start_us\n0,1,2,1000,5\n");
        assert_eq!((table.from, table.begin, table.unit_ns), (1, 4, 1e3));
        assert_eq!(
            table.rows("a\n0,1, 2,1000,5\n").next(),
            Some((2, vec!["0", "1", "2", "1000", "5"]))
        );
        let quoted = "\"src\";\"dst\";\"bytes\";\"start_us\"\n\"1\";\"2\";\"9\";\"5\"\n";
        assert_eq!(Layout::of(quoted).rows(quoted).next(), Some((2, vec!["1", "2", "9", "5"])));
        // Without a unit in its name a begin could be anything.
        assert_eq!(Layout::of("src,dst,bytes,start\n"), PLAIN);
    }
}
