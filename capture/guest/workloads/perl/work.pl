# SPDX-License-Identifier: GPL-2.0-or-later
# Works on the text of Perl's own modules: words counted, lines matched, rewritten and sorted.
use strict;
use warnings;

my @files = sort glob('/usr/share/perl/5.36.0/*.pm /usr/share/perl/5.36.0/*/*.pm');
for my $round (1 .. 1000) {
    my (%count, %where, @lines);
    for my $file (@files) {
        open my $in, '<', $file or next;
        while (my $line = <$in>) {
            chomp $line;
            next if $line =~ /^\s*(?:#|$)/;
            while ($line =~ /\b([A-Za-z_]\w+)\b/g) {
                $count{$1}++;
                push @{$where{$1}}, $. if $count{$1} < 20;
            }
            if ($line =~ /^\s*sub\s+(\w+)\s*(?:\(.*?\))?\s*\{/) {
                push @lines, sprintf('%-30s %5d %s', $1, $., lc $file);
            }
            $line =~ s/([\$\@%])(\w+)/$1 . ucfirst $2/ge;
            $line =~ tr/a-zA-Z//cd if length $line > 70;
            push @lines, substr($line, 0, 20) . join(',', split(/\W+/, $line)) if $. % 7 == 0;
        }
        close $in;
    }
    my @top = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
    print "$_ $count{$_} @{$where{$_}}\n" for @top[0 .. 99];
    print "$_\n" for sort @lines;
}
