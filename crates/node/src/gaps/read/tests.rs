use super::*;

fn of(text: &str) -> Recording {
    read(text.as_bytes()).unwrap()
}

fn us(begin: u64, end: u64, state: Option<u8>) -> Gap {
    Gap { begin: Time::ns(1000 * begin), end: Time::ns(1000 * end), state }
}

const PERF: &str = "\
         swapper     0 [000] 65932.109531:      power:cpu_idle: state=1 cpu_id=0
         swapper     0 [000] 65932.109623:      power:cpu_idle: state=4294967295 cpu_id=0
         swapper     0 [000] 65932.109636:  sched:sched_switch: prev_comm=swapper/0 prev_pid=0 \
prev_prio=120 prev_state=R ==> next_comm=perf-exec next_pid=8207 next_prio=120
         swapper     0 [001] 65932.109640:      power:cpu_idle: state=2 cpu_id=1
         swapper     0 [000] 65932.109700:      power:cpu_idle: state=0 cpu_id=0
         swapper     0 [001] 65932.109800:      power:cpu_idle_miss: cpu_id=1 state=2 type=above
         swapper     0 [001] 65932.109801:      power:cpu_idle: state=4294967295 cpu_id=1
";

#[test]
fn perf_script_by_hand() {
    let found = of(PERF);
    assert_eq!(found.format, "perf script");
    let gaps: Vec<_> = found.cpus.iter().map(|cpu| (cpu.number, cpu.gaps.clone())).collect();
    assert_eq!(gaps, [(0, vec![us(0, 92, Some(1))]), (1, vec![us(109, 270, Some(2))])]);
    assert_eq!(found.length, Time::ns(270_000));
    assert_eq!((found.to_task, found.kernel, found.cut), (Some(1), Some([0, 1]), 1));
    assert_eq!((found.bad_lines, found.broken, found.lost_events), (0, 0, 0));
}

#[test]
fn ftrace_and_trace_cmd_by_hand() {
    let ftrace = "# tracer: nop\n#\n\
        <idle>-0       [003] d..1.  1234.000001000: cpu_idle: state=3 cpu_id=3\n\
        <idle>-0       [003] d..1.  1234.000002500: cpu_idle: state=4294967295 cpu_id=3\n";
    let found = of(ftrace);
    assert_eq!((found.format, found.other_lines), ("ftrace", 2));
    assert_eq!(found.cpus[0].gaps[0].length(), Time::ns(1500));
    let report = "cpus=4\n          <idle>-0     [002]  50.000100: cpu_idle:             \
        state=1 cpu_id=2\n          <idle>-0     [002]  50.000300: cpu_idle:             \
        state=4294967295 cpu_id=2\n";
    let found = of(report);
    assert_eq!((found.format, found.cpus[0].gaps[0]), ("trace-cmd report", us(0, 200, Some(1))));
}

/// A time by floating point alone.
fn rounded(cell: &str, scale: u64) -> Option<u64> {
    let ns = (cell.parse::<f64>().ok()? * scale as f64).round();
    (0.0..=u64::MAX as f64).contains(&ns).then_some(ns as u64)
}

#[test]
fn decimal_times_are_those_of_floating_point() {
    let mut random = 1_u64;
    let scales = [1_000, 1_000_000, 1_000_000_000];
    for n in 0..60_000_u64 {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let scale = scales[(n % 3) as usize];
        // Up to 2^51 ns and beyond, with more places than a nanosecond has and without any.
        let (whole, places) = ((random >> (n % 60)) / scale, n as usize / 3 % 12);
        let fraction = format!("{:011}", random % 100_000_000_000);
        let point = if places > 0 { "." } else { "" };
        let cell = format!("{whole}{point}{}", &fraction[..places]);
        assert_eq!(nanoseconds(cell.as_bytes(), scale), rounded(&cell, scale), "{cell}");
    }
    for cell in ["", ".", "5.", ".5", "+5", "-5", "1e3", "5.5.5", "inf", "nan", "0x1", "5 "] {
        assert_eq!(nanoseconds(cell.as_bytes(), 1_000), rounded(cell, 1_000), "{cell}");
    }
}

#[test]
fn wide_tables_have_their_columns_anywhere() {
    let wide: String = (0..300).map(|n| format!("c{n},")).collect();
    let row = "x,".repeat(300);
    let good = format!("{row}7,3,5,kept\n").repeat(20);
    let text = format!("{wide}end_us,cpu,begin_us,note\n{good}{row}9\n");
    let found = of(&text);
    assert_eq!((found.cpus[0].number, found.bad_lines), (3, 1));
    // The rows are one gap, again and again.
    assert_eq!((&found.cpus[0].gaps[..], found.broken), (&[us(0, 2, None)][..], 19));
}

#[test]
fn table_of_gaps_in_any_unit() {
    let found = of("cpu,begin_ms,end_ms,state\n0,5,5.5,1\n1,5.25,6,\n0,5.75,6,2\n");
    assert_eq!(found.cpus[0].gaps, [us(0, 500, Some(1)), us(750, 1000, Some(2))]);
    assert_eq!(found.cpus[1].gaps, [us(250, 1000, None)]);
    let found = of("# by hand\nbegin_ns,end_ns,cpu\n18000000000000000000,18000000000000001000,7\n");
    assert_eq!(found.cpus[0].gaps, [us(0, 1, None)]);
    assert_eq!(of("cpu,begin_us,end_us\n0,1,2\n# LOST 7\n").lost_events, 7);
    let half = read("cpu,begin_us,end\n0,1,2\n".as_bytes()).unwrap_err().to_string();
    assert!(half.starts_with("line 1: `cpu,begin_us,end`, expected the columns"), "{half}");
}

#[test]
fn tables_of_other_delimiters_and_names_of_cpus() {
    let rows = [("cpu0", "1", "2.5"), ("CPU3", "4", "5"), ("3", "6", "7")];
    for delimiter in [",", ";", "\t", " ; "] {
        let line = |cells: [&str; 3]| cells.join(delimiter) + "\n";
        let rows: String = rows.iter().map(|(cpu, begin, end)| line([cpu, begin, end])).collect();
        let found = of(&(line(["cpu", "begin_ms", "end_ms"]) + &rows));
        let gaps: Vec<_> = found.cpus.iter().map(|cpu| (cpu.number, cpu.gaps.len())).collect();
        assert_eq!((gaps, found.bad_lines), (vec![(0, 1), (3, 2)], 0), "{delimiter:?}");
        assert_eq!(found.idle(), Time::ns(3_500_000));
    }
    let found = of("\"cpu\",\"begin_us\",\"end_us\"\n\"cpu2\",\"1\",\"3\"\n");
    assert_eq!((found.cpus[0].number, found.idle()), (2, Time::ns(2000)));
    for row in ["cpu;1;2", "cpux1;1;2", "0;1;2;3", "0;1,234,5;2"] {
        assert!(read(format!("cpu;begin_us;end_us\n{row}\n").as_bytes()).is_err(), "{row}");
    }
}

#[test]
fn decimal_commas_are_read_where_semicolons_or_tabs_separate() {
    for text in [
        "CPU;Begin_ms;End_ms\n0;0;0,5\n0;1;1,25\n",
        "cpu\tbegin_ms\tend_ms\n0\t0\t0,5\n0\t1\t1,25\n",
    ] {
        let found = of(text);
        assert_eq!(found.cpus[0].gaps, [us(0, 500, None), us(1000, 1250, None)], "{text}");
        assert_eq!(found.bad_lines, 0);
    }
}

#[test]
fn events_that_cannot_be_read_are_named_by_their_recorder_or_their_line() {
    let lttng = "[10:11:12.5] (+0.1) host power_cpu_idle: { cpu_id = 0 }, { state = 1 }\n";
    let tsc = "<idle>-0 [000] d..2. 210000: cpu_idle: state=1 cpu_id=0\n";
    for (text, said) in [(lttng, "this is text of LTTng: "), (tsc, "has no seconds")] {
        let error = read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    let error = read("cpu,begin_us,end_us\n0,500,1\n".as_bytes()).unwrap_err().to_string();
    assert!(error.contains("the first one, line 2: found `0,500,1`, expected a CPU"), "{error}");
}

#[test]
fn table_leaves_out_what_is_no_gap() {
    let good: String = (50..90).map(|n| format!("0,{n},{}\n", n + 1)).collect();
    let bad = "0,1,9\n0,8,12\n0,20,20\n0,x,30\n0,30,40\n";
    let found = of(&format!("cpu,begin_us,end_us\n{bad}{good}"));
    assert_eq!(found.cpus[0].gaps[..2], [us(0, 8, None), us(29, 39, None)]);
    assert_eq!((found.broken, found.bad_lines), (1, 2));
    // Two bad rows are too many among few.
    let few = read(format!("cpu,begin_us,end_us\n{bad}").as_bytes()).unwrap_err().to_string();
    assert!(few.starts_with("2 of 5 lines are bad, expected at most 5 %; the first one, line 4"));
    for row in ["0,9,8", "0,1,inf", "0,-3,4", "0,1,234,567", "0,nan,5"] {
        let error = read(format!("cpu,begin_us,end_us\n0,1,2\n{row}\n").as_bytes());
        assert!(error.is_err(), "{row}");
    }
}

#[test]
fn rows_of_a_table_are_sorted() {
    let found = of("cpu,begin_us,end_us\n0,20,25\n1,5,6\n0,30,40\n0,1,9,\n");
    let expected = [us(0, 8, None), us(19, 24, None), us(29, 39, None)];
    assert_eq!((&found.cpus[0].gaps[..], found.broken), (&expected[..], 0));
}

#[test]
fn a_time_is_a_word_of_its_own() {
    let line = |time: &str| format!("<idle>-0 [000] d..1 {time}: cpu_idle: state=1 cpu_id=0\n");
    for wrong in ["1e308.001", "1,234.001", "x9.5", "9.5x"] {
        let error = read((line(wrong) + &line(wrong)).as_bytes()).unwrap_err().to_string();
        assert!(error.contains("cannot be read: 2"), "{wrong}: {error}");
    }
    // `perf script -F +period` has a number before the event.
    let period = event(1, 1, 0).replace(": cpu_idle", ":          1 power:cpu_idle");
    assert_eq!(of(&(period + &event(5, -1, 0))).cpus[0].gaps, [us(0, 4, Some(1))]);
}

fn event(us: u64, state: i64, cpu: u32) -> String {
    let state = if state < 0 { "4294967295".to_owned() } else { state.to_string() };
    format!("<idle>-0 [{cpu:03}] d..1 9.{us:06}: cpu_idle: state={state} cpu_id={cpu}\n")
}

#[test]
fn lost_events_break_the_gaps_that_are_open() {
    let gap = |from, to| event(from, 1, 0) + &event(to, -1, 0);
    // The exit at 30 belongs to no entry that is known.
    let text = gap(1, 5)
        + &event(10, 1, 0)
        + "CPU:0 [LOST 53 EVENTS]\n"
        + &event(30, -1, 0)
        + &gap(40, 50);
    let found = of(&text);
    assert_eq!(found.cpus[0].gaps, [us(0, 4, Some(1)), us(39, 49, Some(1))]);
    assert_eq!((found.lost_events, found.broken, found.cut), (53, 1, 1));
}

#[test]
fn losses_are_counted_as_each_recorder_says_them() {
    let gap = event(1, 1, 3) + &event(5, -1, 3);
    for (line, lost) in [
        ("CPU:95 [LOST EVENTS]", 1),
        ("CPU:3 [LOST 53 EVENTS]", 53),
        ("CPU:2 [7 EVENTS DROPPED]", 7),
        ("swapper 0 [003] 9.5: PERF_RECORD_LOST lost 12", 12),
    ] {
        assert_eq!(of(&format!("{gap}{line}\n")).lost_events, lost, "{line}");
    }
    // Another CPU's losses leave this one's gap alone.
    let text = gap + &event(10, 1, 3) + "CPU:95 [LOST 2 EVENTS]\n" + &event(20, -1, 3);
    assert_eq!(of(&text).gaps(), 2);
}

#[test]
fn cpus_one_after_another_begin_where_they_began() {
    let found = of("cpu,begin_us,end_us\n0,50,60\n1,10,20\n");
    assert_eq!(found.cpus[0].gaps, [us(40, 50, None)]);
    assert_eq!((found.cpus[1].gaps[0], found.bad_lines), (us(0, 10, None), 0));
    assert_eq!(found.length, Time::ns(50_000));
}

#[test]
fn busy_cpu_is_known_by_its_switches() {
    let text = PERF.to_owned()
        + "perf 7 [005] 65932.5: sched:sched_switch: prev_comm=a prev_pid=7 ==> next_pid=8\n";
    let found = of(&text);
    assert_eq!(found.cpus.iter().map(|cpu| cpu.gaps.len()).collect::<Vec<_>>(), [1, 1, 0]);
}

#[test]
fn missing_events_and_clocks_that_step_break_gaps() {
    // Entered twice; left twice; a step back within a gap.
    let text = [(10, 1), (20, 1), (25, -1), (26, -1), (40, 2), (30, -1), (50, 1), (60, -1)];
    let text: String = text.iter().map(|&(at, state)| event(at, state, 0)).collect();
    let found = of(&text);
    assert_eq!(found.cpus[0].gaps, [us(10, 15, Some(1)), us(40, 50, Some(1))]);
    assert_eq!(found.broken, 3);
}

#[test]
fn lines_in_reverse_are_told_and_not_played() {
    let lines: Vec<String> =
        (0..60).map(|n| event(100 + 10 * n, n as i64 % 2 * -2 + 1, 0)).collect();
    let told = |lines: &[String]| read(lines.concat().as_bytes()).unwrap_err().to_string();
    let reversed: Vec<String> = lines.iter().rev().cloned().collect();
    assert_eq!(told(&reversed), REVERSED);
    // Pieces in the right order of which each is right would be gaps that overlap.
    let pieces: Vec<String> = lines.chunks(10).rev().flatten().cloned().collect();
    assert!(told(&pieces).starts_with("5 of 60 events of idle CPUs are before the line above"));
    // A clock that steps back once.
    let twice: Vec<String> = lines.chunks(30).rev().flatten().cloned().collect();
    assert_eq!(of(&twice.concat()).gaps(), 15);
}

#[test]
fn event_without_newline_may_be_cut_in_its_cpu() {
    let gaps: String = (0..20).map(|n| event(10 * n, 1, 12) + &event(10 * n + 5, -1, 12)).collect();
    let text = gaps + &event(300, 1, 12) + &event(310, -1, 12);
    assert_eq!(of(&text).gaps(), 21);
    for cut in 1..3 {
        let found = of(&text[..text.len() - cut]);
        let cpus: Vec<u32> = found.cpus.iter().map(|cpu| cpu.number).collect();
        assert_eq!((cpus, found.gaps(), found.bad_lines), (vec![12], 20, 1), "{cut}");
    }
    // The last column of a table is another thing: tables need no newline at their end.
    assert_eq!(of("cpu,begin_us,end_us\n0,1,2").bad_lines, 0);
}

#[test]
fn bad_lines_are_counted() {
    let good: String = (0..20).map(|n| event(100 + n, n as i64 % 2 * -2 + 1, 1)).collect();
    let text = good
        + &event(10, 1, 0)
        + &event(20, -1, 0)
        + "<idle>-0 [000] d..1 123456789: cpu_idle: state=1 cpu_id=0\n"
        + "<idle>-0 [000] d..1 9.5: cpu_idle: state=1 cpu_id=1\n";
    let found = of(&text);
    assert_eq!((found.gaps(), found.bad_lines), (11, 1));
    let more = text + "<idle>-0 [000] d..1 9.5: cpu_idle: state= cpu_id=0\n";
    let error = read(more.as_bytes()).unwrap_err().to_string();
    assert!(error.starts_with("2 of 25 lines are bad"), "{error}");
}

#[test]
fn file_without_gaps_is_refused_with_what_is_expected() {
    let none = read("cpu,begin_us,end_us\n".as_bytes()).unwrap_err().to_string();
    assert_eq!(none, "the table of idle times has no rows: no CPU was idle");
    let switch = "perf 7 [001] 9.5: sched:sched_switch: prev_comm=a prev_pid=7 ==> next_pid=8\n";
    let busy = read(switch.as_bytes()).unwrap_err().to_string();
    assert!(busy.starts_with("switches of tasks, but no `power:cpu_idle`"), "{busy}");
    let nothing = read("hello\nworld\n".as_bytes()).unwrap_err().to_string();
    assert!(
        nothing.starts_with("no idle times among its lines (2); expected text of"),
        "{nothing}"
    );
    let open = read(event(10, 1, 0).as_bytes()).unwrap_err().to_string();
    assert!(open.contains("(events of idle CPUs: 1, of which cannot be read: 0)"), "{open}");
}

#[test]
fn endless_line_takes_bounded_memory_and_the_next_is_read() {
    let text = "x".repeat(200_000) + "\n" + &event(10, 1, 0) + &event(20, -1, 0);
    assert_eq!(of(&text).gaps(), 1);
}

#[test]
fn lines_are_whole_whatever_the_buffer_holds() {
    let long = "x".repeat(LONGEST_LINE - 1);
    let text = PERF.replace('\n', "\r\n")
        + &long
        + "\n"
        + &long
        + &event(1, 1, 9)
        + "\n\n"
        + &event(10, 1, 3)
        + &event(20, -1, 3).replace('\n', "\r");
    let whole = of(&text);
    // The line that is too long holds an event behind its end, which is not read.
    assert_eq!(whole.cpus.iter().map(|cpu| cpu.number).collect::<Vec<_>>(), [0, 1, 3]);
    assert_eq!(whole.cpus[2].gaps.len(), 1);
    for capacity in [1, 2, 3, 7, 64, 1_000, 65_535, 65_536, 65_537] {
        let cut = std::io::BufReader::with_capacity(capacity, text.as_bytes());
        assert_eq!(read(cut).unwrap(), whole, "{capacity}");
    }
    assert_eq!(read(Interrupts { text: text.as_bytes(), is_due: true }).unwrap(), whole);
}

/// A reader that a signal interrupts before each part.
struct Interrupts<'a> {
    text: &'a [u8],
    is_due: bool,
}

impl io::Read for Interrupts<'_> {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        unreachable!("lines are read from the buffer")
    }
}

impl BufRead for Interrupts<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.is_due = !self.is_due;
        if self.is_due {
            return Ok(&self.text[..self.text.len().min(100)]);
        }
        Err(io::ErrorKind::Interrupted.into())
    }

    fn consume(&mut self, read: usize) {
        self.text = &self.text[read..];
    }
}

#[test]
fn fields_are_read_alike_on_the_short_way_and_the_long_one() {
    for (fields, short) in [
        (" state=1 cpu_id=3", Some((1, 3))),
        ("             state=4294967295 cpu_id=12", Some((4_294_967_295, 12))),
        (" state=1 cpu_id=3 more", Some((1, 3))),
        (" state=-1 cpu_id=3", Some((EXIT, 3))),
        (" state=-12 cpu_id=3", None),
        (" cpu_id=3 state=1", None),
        (" state=1  cpu_id=3", None),
        (" state= cpu_id=3", None),
        (" state=99999999999999999999999 cpu_id=3", None),
        ("", None),
    ] {
        let fields = fields.as_bytes();
        assert_eq!(state_and_cpu(fields), short);
        if short.is_some() {
            assert_eq!(field(fields, b"state=").zip(field(fields, b"cpu_id=")), short);
        }
    }
}
