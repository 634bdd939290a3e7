# SPDX-License-Identifier: GPL-2.0-or-later
. /halfwink/later.sh
prepare() {
    cd /tmp
    /usr/bin/gmx -quiet genconf -f /usr/share/gromacs/top/spc216.gro -nbox 3 3 3 -o water.gro >/dev/null 2>&1 || return 1
    /usr/bin/gmx -quiet grompp -f /halfwink/run.mdp -c water.gro -p /halfwink/water.top -o run.tpr -maxwarn 2 >/dev/null 2>&1 || return 1
    record_later
}
if [ "$1" = run ]; then
    cd /tmp
    exec /usr/bin/gmx -quiet mdrun -nt 1 -pin off -notunepme -s run.tpr -deffnm run >/dev/null 2>&1
fi
