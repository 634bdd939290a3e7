//! What quantities add up to, in numbers chosen so that no two operations agree.

use halfwink_units::{
    Clock, Energy, LineAddr, PhysAddr, Power, Time, VirtAddr, LINE_BYTES, PAGE_SHIFT,
};

#[test]
fn times_add_and_subtract_exactly() {
    let (seven, three) = (Time(7), Time(3));
    assert_eq!((seven + three, seven - three, seven * 3), (Time(10), Time(4), Time(21)));
    let mut time = seven;
    time += three;
    assert_eq!(time, Time(10));
    time -= Time(4);
    assert_eq!(time, Time(6));
    assert_eq!((seven.checked_sub(three), three.checked_sub(seven)), (Some(Time(4)), None));
    assert_eq!(three.checked_sub(three), Some(Time::ZERO));
    assert_eq!((three.saturating_sub(seven), seven.saturating_sub(three)), (Time::ZERO, Time(4)));
    assert_eq!(Time::NEVER.saturating_add(three), Time::NEVER);
    assert_eq!((Time(2_500).as_ps(), Time::ns(2)), (2_500, Time(2_000)));
    assert!((Time(2_500).as_ns() - 2.5).abs() < 1e-12);
    assert!((Time(2_500_000_000_000).as_s() - 2.5).abs() < 1e-12);
}

#[test]
fn energies_add_and_subtract_exactly() {
    let (seven, three) = (Energy(7), Energy(3));
    assert_eq!((seven + three, seven - three, seven * 3), (Energy(10), Energy(4), Energy(21)));
    let mut energy = seven;
    energy += three;
    assert_eq!(energy, Energy(10));
    assert_eq!((seven.checked_sub(three), three.checked_sub(seven)), (Some(Energy(4)), None));
    assert_eq!([seven, three, Energy(90)].into_iter().sum::<Energy>(), Energy(100));
    assert_eq!(Power(7) + Power(3), Power(10));
    assert!((Power(2_500_000).as_w() - 2.5).abs() < 1e-12);
    assert_eq!((format!("{:?}", Power(2_500_000)).as_str()), "2.5 W");
    assert_eq!(format!("{:?}", Energy(2 * 10_u128.pow(18))), "2 J");
}

#[test]
fn clock_counts_cycles_exactly() {
    let clock = Clock::from_hz(2_500_000_000).unwrap();
    assert!((clock.hz() - 2.5e9).abs() < 1e-3);
    assert!((Clock::from_hz(3_300_000_000).unwrap().hz() - 3.3e9).abs() < 1e-3);
    // 400 ps each.
    assert_eq!((clock.cycles_covering(Time(800)), clock.cycles_covering(Time(801))), (2, 3));
    // Fractions are cut: the same frequency is the same clock, and sums do not overflow early.
    assert_eq!(format!("{clock:?}"), "Clock { period_num: 400, period_den: 1 }");
}

#[test]
fn addresses_know_their_line_and_half() {
    assert_eq!((LINE_BYTES, PAGE_SHIFT), (64, 12));
    assert_eq!((PhysAddr(127).line(), PhysAddr(128).line()), (LineAddr(1), LineAddr(2)));
    assert_eq!(LineAddr(3).first_byte(), PhysAddr(192));
    assert!(VirtAddr(0xffff_8000_0000_0000).is_kernel_half());
    assert!(!VirtAddr(0x7fff_ffff_ffff_ffff).is_kernel_half());
}
