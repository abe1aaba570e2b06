/* Transfers for an event loop. A bounded queue a download keeps what the
 * worker receives (RO_MAX_DOWNLOAD_QUEUE), and one eventfd a mailbox says that
 * something waits.
 *
 * Any thread, except that the calls on one download are made by one thread at
 * a time. Mailboxes and downloads are counted; a download keeps its mailbox.
 * The net must live until the last download is done, that is until
 * ro_net_shut_down. In a forked child everything refuses and nothing is freed.
 */
#ifndef RO_NET_MAILBOX_H
#define RO_NET_MAILBOX_H

#include "net/net.h"

typedef struct ro_mailbox ro_mailbox;
typedef struct ro_download ro_download;

/* Borrows net. NULL: out of memory or descriptors. */
ro_mailbox *ro_mailbox_new(ro_net *net);
/* To be called before the maker's ro_mailbox_release: there will be no more
 * polling, and no download is kept for it. Twice is fine. */
void ro_mailbox_close(ro_mailbox *mailbox);
void ro_mailbox_release(ro_mailbox *mailbox);
/* Readable while ro_mailbox_poll would return something. Owned by the mailbox.
 */
int ro_mailbox_fd(const ro_mailbox *mailbox);
/* Ids of downloads with news since they were last returned, at most max; the
 * descriptor stays readable when there are more. */
size_t ro_mailbox_poll(ro_mailbox *mailbox, uint64_t *ids, size_t max);

/* As ro_net_submit; *out carries one reference. */
ro_net_code ro_mailbox_submit(ro_mailbox *mailbox, const ro_request *request,
                              ro_download **out);
/* Cancels what is not done. NULL is fine. */
void ro_download_release(ro_download *download);
void ro_download_cancel(ro_download *download);
uint64_t ro_download_id(const ro_download *download);

typedef enum ro_download_state {
    RO_DOWNLOAD_WAITS, /* nothing yet */
    RO_DOWNLOAD_READY, /* something was returned */
    RO_DOWNLOAD_ENDED, /* the answer was complete */
    RO_DOWNLOAD_FAILED,
} ro_download_state;

/* READY, WAITS or FAILED; *head is valid as long as the download. */
ro_download_state ro_download_head(ro_download *download, ro_head *head,
                                   ro_net_code *code);
/* All bytes that wait, in a block for ro_free when READY. A failure is
 * returned once the bytes before it are read. */
ro_download_state ro_download_read(ro_download *download, char **bytes,
                                   size_t *len, ro_net_code *code);

#endif
