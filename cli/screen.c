/* screen.c - see screen.h. Uses only control codes that all current terminals support. */
#include "screen.h"

#include "say.h"
#include "stop.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static struct {
    bool taken, keys;
    struct termios before;
} screen;

void picture_add(struct picture *picture, const char *format, ...)
{
    const size_t room = sizeof picture->text - picture->used;
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(picture->text + picture->used, room, format, arguments);
    va_end(arguments);
    picture->used += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

void picture_add_text(struct picture *picture, const char *text)
{
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        picture_add(picture, "%c", c < 0x20 || c == 0x7F ? '?' : *text);
    }
}

/* Does nothing, because the signal only has to interrupt the wait. */
static void screen_changed(int number)
{
    (void)number;
}

static void screen_take_keys(void)
{
    struct termios raw;
    if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &screen.before) != 0) {
        return;
    }
    raw = screen.before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    raw.c_cc[VSUSP] =
        _POSIX_VDISABLE; /* suspending would leave the alternate screen active */
    screen.keys = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

void screen_begin(void)
{
    /* Show the alternate screen and hide the cursor. */
    static const char take[] = "\033[?1049h\033[?25l";
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = screen_changed;
    (void)sigaction(SIGWINCH, &action, NULL);
    screen_take_keys();
    screen.taken = out_write_through(take, sizeof take - 1);
}

void screen_end(void)
{
    static const char give[] = "\033[?25h\033[?1049l";
    if (screen.taken) {
        (void)out_write_through(give, sizeof give - 1);
    }
    if (screen.keys) {
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &screen.before);
    }
    screen.taken = screen.keys = false;
}

static struct winsize screen_size(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || !size.ws_col || !size.ws_row) {
        size = (struct winsize){ .ws_row = 24, .ws_col = 80 };
    }
    return size;
}

int screen_columns(void)
{
    return screen_size().ws_col;
}

/* Returns the length in bytes of the first `columns` characters of a line. In UTF-8, a character
 * may consist of several bytes. */
static size_t screen_cut(const char *line, size_t n, unsigned columns)
{
    size_t bytes = 0;
    for (unsigned used = 0; bytes < n; bytes++) {
        if (((unsigned char)line[bytes] & 0xC0) != 0x80 && used++ == columns) {
            break;
        }
    }
    return bytes;
}

bool screen_draw(const struct picture *picture)
{
    static struct picture codes;
    const struct winsize size = screen_size();
    const char *line = picture->text;
    codes.used = 0;
    picture_add(&codes, "\033[H");
    for (unsigned row = 0; row < size.ws_row && *line; row++) {
        const size_t n = strcspn(line, "\n");
        picture_add(&codes, "%s%.*s\033[K", row ? "\r\n" : "",
                    (int)screen_cut(line, n, size.ws_col), line);
        line += n + (line[n] == '\n');
    }
    picture_add(&codes, "\033[J");
    return out_write_through(codes.text, codes.used);
}

int screen_wait(double seconds)
{
    struct pollfd all[] = { { stop_fd(), POLLIN, 0 },
                            { screen.keys ? STDIN_FILENO : -1, POLLIN, 0 },
                            { STDOUT_FILENO, 0, 0 } };
    char key;
    if (stop_wanted() || poll(all, 3, (int)(seconds * 1000)) <= 0 || stop_wanted()) {
        return 0;
    }
    if (all[2].revents & (POLLERR | POLLHUP)) {
        return -1;
    }
    if (!all[1].revents) {
        return 0;
    }
    if (read(STDIN_FILENO, &key, 1) == 1) {
        return (unsigned char)key;
    }
    screen.keys = false; /* the terminal was closed */
    return 0;
}
